//! Dependencies among the crates point down only, those of tests too.

use crate::repo::{Crate, Finding, Repo};

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Crate { folder, name, manifest } in repo.crates() {
        let path = format!("{folder}/Cargo.toml");
        let Some(own) = layer(name) else {
            findings.push(Finding::new(&path, 0, format!("`{name}` has no place in LAYERS")));
            continue;
        };
        for (line, below) in dependencies(manifest) {
            if layer(below).is_some_and(|below| below >= own) {
                let what = format!("`{name}` must not depend on `{below}`: that is not below it");
                findings.push(Finding::new(&path, line, what));
            }
        }
    }
    findings
}

/// The workspace crates a manifest names as dependencies, with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(section) = line.strip_prefix('[') {
            inside = section.contains("dependencies");
        }
        if inside {
            let names = line.split(|c: char| !c.is_alphanumeric() && c != '-');
            found.extend(names.filter(|name| layer(name).is_some()).map(|name| (index + 1, name)));
        }
    }
    found
}

/// How high a crate stands; `None` if it is not ours.
fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

/// From the lowest to the highest.
const LAYERS: &[&str] = &[
    "tidy",
    "egret-derive",
    "egret-net",
    "egret-stream",
    "egret-node",
    "egret",
    "egret-apps",
    "egret-bench",
    "egret-cli",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::told;

    fn findings(name: &str, manifest: &str) -> Vec<String> {
        told(&check(&Repo::of(&[(&format!("crates/{name}/Cargo.toml"), manifest)])))
    }

    #[test]
    fn a_dependency_may_point_down() {
        let manifest = "[package]\nname = \"egret\"\n[dependencies]\negret-net.workspace = true\n\
                        # egret-cli is above\nclap = \"4\"\n[lints]\nworkspace = true\n";
        assert_eq!(findings("egret", manifest), [""; 0]);
    }

    #[test]
    fn a_dependency_that_points_up_is_found() {
        let up = "crates/egret-net/Cargo.toml:2: \
                  `egret-net` must not depend on `egret-node`: that is not below it";
        for manifest in [
            "[dependencies]\negret-node.workspace = true\n",
            "[dev-dependencies]\negret-node = { path = \"x\" }\n",
            "[target.'cfg(unix)'.build-dependencies]\negret-node = \"0.1\"\n",
            "[dependencies]\nnode = { package = \"egret-node\" }\n",
            "[dependencies.node]\npath = \"../egret-node\"\n",
        ] {
            assert_eq!(findings("egret-net", manifest), [up], "{manifest}");
        }
        assert_eq!(findings("egret-net", "[dependencies.egret-node]\nworkspace = true\n").len(), 1);
    }

    #[test]
    fn the_applications_stand_between_the_library_and_the_command() {
        let manifest = "[dependencies]\negret.workspace = true\negret-cli.workspace = true\n";
        let found = told(&check(&Repo::of(&[("apps/Cargo.toml", manifest)])));
        let up = "apps/Cargo.toml:3: \
                  `egret-apps` must not depend on `egret-cli`: that is not below it";
        assert_eq!(found, [up]);
        assert_eq!(findings("egret-cli", "[dependencies]\negret-apps.workspace = true\n"), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        assert_eq!(
            findings("egret-new", "")[0].split(": ").nth(1),
            Some("`egret-new` has no place in LAYERS")
        );
    }
}
