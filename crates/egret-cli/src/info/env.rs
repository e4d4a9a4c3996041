//! `egret info --env`: what nodes of this environment would be told.

use std::borrow::Cow;
use std::fmt::Write;

use egret::node::settings::{Setting, Settings, SettingsReport};
use serde::Serialize;

/// A setting. The names are a contract: fields are added, never renamed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SettingInfo {
    /// Of a variable that looks like one and is none, the variable.
    name: Cow<'static, str>,
    variable: Cow<'static, str>,
    /// Of a secret only that there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The source of the value: `default`, `environment`, `descriptor N`, or a file.
    origin: String,
    help: &'static str,
    /// What is wrong with the value: no node joins with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
}

/// All settings, as this process would read them.
pub(crate) fn all() -> anyhow::Result<Vec<SettingInfo>> {
    let info = |setting: Setting| {
        let Setting { name, variable, value, origin, help, wrong, .. } = setting;
        SettingInfo {
            name: name.into(),
            variable: variable.into(),
            value,
            origin: origin.to_string(),
            help,
            wrong,
        }
    };
    let SettingsReport { settings, unknown, .. } = Settings::report()?;
    let unknown = unknown.into_iter().map(|variable| SettingInfo {
        name: variable.clone().into(),
        variable: variable.into(),
        value: None,
        origin: "environment".to_owned(),
        help: "unknown setting; egret ignores it",
        wrong: None,
    });
    Ok(settings.into_iter().map(info).chain(unknown).collect())
}

/// What nodes would encrypt, and the secret that they would have. Where the settings cannot be read
/// there are no nodes either: both say why.
pub(crate) fn encryption_and_secret() -> [SettingInfo; 2] {
    let settings = all().map_err(|why| format!("{why:#}"));
    [("encrypt", ENCRYPT), ("secret", SECRET)].map(|(name, variable)| {
        let wrong = match &settings {
            Ok(all) => match all.iter().find(|setting| setting.variable == variable) {
                Some(setting) => return setting.clone(),
                None => None,
            },
            Err(why) => Some(why.clone()),
        };
        // Without the settings only the environment says what it is.
        let value = std::env::var(variable).ok().filter(|_| variable == ENCRYPT);
        let origin = UNKNOWN.to_owned();
        SettingInfo { name: name.into(), variable: variable.into(), value, origin, help: "", wrong }
    })
}

impl SettingInfo {
    fn is_encryption(&self) -> bool {
        self.variable == ENCRYPT
    }

    /// The value, and who says so.
    pub(super) fn said(&self) -> String {
        let Self { variable, value, origin, wrong, .. } = self;
        match (value, wrong) {
            (_, Some(why)) if origin == UNKNOWN => format!("no settings: {why}"),
            (Some(value), Some(why)) => format!("{value} ({variable}, {origin}): WRONG, {why}"),
            (Some(value), None) => format!("{value} ({variable}, {origin})"),
            (None, _) => format!("none ({variable}, {origin})"),
        }
    }

    /// What everybody is to see who looks: that connections of nodes are not encrypted.
    pub(super) fn warning(&self) -> Option<String> {
        let is_off = self.is_encryption() && self.value.as_deref() == Some("off");
        is_off.then(|| {
            let Self { variable, origin, .. } = self;
            format!(
                "WARNING: ENCRYPTION IS OFF ({variable}=off, {origin}): any process on the network \
                 can read and change what nodes say"
            )
        })
    }
}

const ENCRYPT: &str = "EGRET_ENCRYPT";
/// The origin where the settings cannot be read.
const UNKNOWN: &str = "unknown";
const SECRET: &str = "EGRET_SECRET";

/// A line for each.
pub(crate) fn text(settings: &[SettingInfo]) -> String {
    let width = |cell: fn(&SettingInfo) -> usize| settings.iter().map(cell).max().unwrap_or(0);
    let variable = width(|setting| setting.variable.len());
    let value = width(|setting| shown(setting).len());
    let origin = width(|setting| setting.origin.len());
    let mut out = String::new();
    for warning in settings.iter().filter_map(SettingInfo::warning) {
        let _ = writeln!(out, "{warning}\n");
    }
    for setting in settings {
        let SettingInfo { variable: name, origin: from, help, wrong, .. } = setting;
        let is = shown(setting);
        let help = wrong.as_ref().map_or((*help).into(), |why| format!("WRONG: {why}"));
        let _ = writeln!(out, "{name:<variable$}  {is:<value$}  {from:<origin$}  {help}");
    }
    out.trim_end().to_owned()
}

fn shown(setting: &SettingInfo) -> &str {
    match setting.value.as_deref() {
        None => "-",
        Some("") => "\"\"",
        Some(value) => value,
    }
}
