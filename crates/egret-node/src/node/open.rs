//! Opening the fabrics of a node.

use std::net::{SocketAddr, ToSocketAddrs};

use egret_net::fabric::{Fabrics, OpenError};
use egret_net::rt;
use egret_net::vi::{Encrypt, Identity, Nic, NicOptions, Trust, Wait};

use crate::pool::{JoinError, Properties};
use crate::settings::{Config, FabricList, SettingKey, Settings};
use crate::{Links, LinksOptions};

/// The fabrics that a node has opened.
#[derive(Debug)]
pub(super) struct OpenedFabrics {
    /// The links to the registry.
    pub(super) control: Links,
    /// The links over each fabric, the preferred one first.
    pub(super) fabrics: Vec<(String, Links)>,
    pub(super) properties: Vec<Properties>,
    /// The fabrics that are not used, and why.
    pub(super) skipped: Vec<(String, String)>,
    /// Remote calls that each other node may have under way, if the program says so.
    pub(super) in_flight: Option<u32>,
}

impl OpenedFabrics {
    pub(super) fn of(config: &Config) -> Result<Self, JoinError> {
        let opened = Self::open(config)?;
        let links = opened.fabrics.iter().map(|(_, links)| links).chain([&opened.control]);
        links.for_each(Links::close_to_strangers);
        Ok(opened)
    }

    fn open(config: &Config) -> Result<Self, JoinError> {
        config.settings.secret()?;
        if let Some(nic) = &config.over {
            return Self::over(config, nic);
        }
        let identity = &Identity::random();
        let settings = &config.settings;
        let list: FabricList = settings.needed(SettingKey::Fabrics)?;
        let mut opened = Vec::new();
        let mut skipped = Vec::new();
        let named = !list.wanted.is_empty() && settings.is_said(SettingKey::Fabrics);
        for name in candidates(config, &list) {
            match open_one(config, &name, &list, identity) {
                Ok(found) => opened.push(found),
                // What is open to everybody by mistake is not mended by another fabric.
                Err(SkipReason::Nic(why)) if named || why.is_secret_refused() => {
                    return Err(JoinError::Nic { fabric: name, why });
                }
                Err(SkipReason::Nic(why)) => skipped.push((name, why.to_string())),
                Err(SkipReason::Settings(why)) => return Err(why),
                Err(SkipReason::Links(why)) => return Err(why.into()),
                Err(SkipReason::Unwanted(why)) => skipped.push((name, why)),
            }
        }
        let rest =
            list.rejected.iter().filter(|name| !skipped.iter().any(|(known, _)| known == *name));
        let rest: Vec<_> = rest.map(|name| (name.clone(), rejected(settings))).collect();
        skipped.extend(rest);
        if opened.is_empty() {
            let told = skipped.iter().map(|(name, why)| format!("{name}: {why}"));
            return Err(JoinError::NoFabric { why: told.collect::<Vec<_>>().join("; ") });
        }
        let tcp = opened.iter().find(|(name, ..)| name == "tcp").map(|(_, links, _)| links.clone());
        let control = match tcp {
            Some(links) => links,
            None => open_control(config, identity)?,
        };
        let properties = opened.iter().map(|(.., properties)| properties.clone()).collect();
        let fabrics = opened.into_iter().map(|(name, links, _)| (name, links)).collect();
        Ok(Self { control, fabrics, properties, skipped, in_flight: config.in_flight })
    }

    fn over(config: &Config, nic: &Nic) -> Result<Self, JoinError> {
        let properties = Properties::of("sim", &nic.limits());
        if let Some(why) = unwanted(config, &properties) {
            return Err(JoinError::NoFabric { why });
        }
        let links = Links::open(nic.clone(), config.links.clone())?;
        let (control, fabrics) = (links.clone(), vec![("sim".to_owned(), links)]);
        Ok(Self {
            control,
            fabrics,
            properties: vec![properties],
            skipped: Vec::new(),
            in_flight: config.in_flight,
        })
    }
}

/// Why a fabric is not used.
enum SkipReason {
    Unwanted(String),
    Nic(OpenError),
    Links(crate::link::LinkError),
    Settings(JoinError),
}

/// The fabrics to look at, in order of preference.
fn candidates(config: &Config, list: &FabricList) -> Vec<String> {
    if !list.wanted.is_empty() {
        return list.wanted.clone();
    }
    let others = config.fabrics.iter().map(|(fabric, _)| fabric.name());
    others.chain(["shm", "tcp", "udp"]).map(str::to_owned).collect()
}

fn rejected(settings: &Settings) -> String {
    let all = settings.all();
    let setting = all.iter().find(|setting| setting.name == SettingKey::Fabrics.name());
    let origin = setting.map_or_else(String::new, |setting| setting.origin.to_string());
    format!("rejected by {} ({origin})", SettingKey::Fabrics.variable())
}

fn open_one(
    config: &Config,
    name: &str,
    list: &FabricList,
    identity: &Identity,
) -> Result<(String, Links, Properties), SkipReason> {
    if list.rejected.iter().any(|rejected| rejected == name) {
        return Err(SkipReason::Unwanted(rejected(&config.settings)));
    }
    let mut fabrics = Fabrics::default();
    config.fabrics.iter().for_each(|(fabric, _)| fabrics.add(std::sync::Arc::clone(fabric)));
    let options = nic_options(config, name, identity).map_err(SkipReason::Settings)?;
    let nic = fabrics.open(name, options).map_err(SkipReason::Nic)?;
    let own = config.fabrics.iter().find(|(fabric, _)| fabric.name() == name);
    let properties = match own {
        Some((_, properties)) => properties.clone(),
        None => known(config, name, &nic)?,
    };
    if let Some(why) = unwanted(config, &properties) {
        return Err(SkipReason::Unwanted(why));
    }
    let links = Links::open(nic, config.links.clone()).map_err(SkipReason::Links)?;
    Ok((name.to_owned(), links, properties))
}

/// The properties of a fabric of this project here: what leaves the machine is encrypted, unless
/// encryption is off or there is no secret.
fn known(config: &Config, name: &str, nic: &Nic) -> Result<Properties, SkipReason> {
    let properties = Properties::of(name, &nic.limits());
    let encrypt: Encrypt =
        config.settings.needed(SettingKey::Encrypt).map_err(SkipReason::Settings)?;
    let has_secret = config.settings.secret().map_err(SkipReason::Settings)?.is_some();
    let is_sealed = name != "sim" && encrypt != Encrypt::Never && has_secret;
    let is_private = properties.private || is_sealed;
    Ok(properties.private(is_private))
}

/// Why a fabric with these properties is not used.
fn unwanted(config: &Config, properties: &Properties) -> Option<String> {
    let lacking = config.required.iter().find(|needed| !properties.gives(needed));
    let rejected = || config.rejected.iter().find(|unwanted| properties.has(unwanted));
    let lacking = lacking.map(|lacking| format!("{lacking} is required"));
    lacking.or_else(|| rejected().map(|unwanted| format!("{unwanted} is rejected")))
}

/// Opens the links to the registry, which are over tcp, whatever fabrics the node uses.
fn open_control(config: &Config, identity: &Identity) -> Result<Links, JoinError> {
    let options = nic_options(config, "tcp", identity)?;
    if config.settings.needed::<Encrypt>(SettingKey::Encrypt)? == Encrypt::Never {
        tracing::warn!(
            "encryption is off (EGRET_ENCRYPT): who is on the network between this node and others \
             can read and change what they say"
        );
    }
    let nic = Fabrics::default().open("tcp", options);
    let nic = nic.map_err(|why| JoinError::Nic { fabric: "tcp".to_owned(), why })?;
    Ok(Links::open(nic, LinksOptions::default())?)
}

fn nic_options(
    config: &Config,
    fabric: &str,
    identity: &Identity,
) -> Result<NicOptions, JoinError> {
    let settings = &config.settings;
    let host = match fabric {
        "tcp" | "udp" => listen(settings)?,
        // A name that cannot be guessed cannot have been taken before.
        _ => format!("egret-{:016x}", rt::random()),
    };
    let wait: Wait = settings.needed(SettingKey::Wait)?;
    let trust: Trust = settings.needed(SettingKey::Trust)?;
    let encrypt: Encrypt = settings.needed(SettingKey::Encrypt)?;
    let options = NicOptions::new(&host).wait(wait).trust(trust).encrypt(encrypt);
    let options = options.identity(identity.clone());
    let options = if config.is_insecure { options.insecure_without_secret() } else { options };
    Ok(match settings.secret()? {
        Some(secret) => options.secret(secret),
        None => options,
    })
}

/// Where to listen: where the settings say, else on loopback if the registry is there.
fn listen(settings: &Settings) -> Result<String, JoinError> {
    if let Some(place) = settings.value(SettingKey::Listen)? {
        return Ok(place);
    }
    let registry: String = settings.needed(SettingKey::Registry)?;
    let mut found = registry.to_socket_addrs().into_iter().flatten();
    let is_here = found.any(|at: SocketAddr| at.ip().is_loopback());
    Ok(if is_here { "" } else { "reachable" }.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_shm_nics_are_random() {
        let config = Config::new("p");
        let host = || nic_options(&config, "shm", &Identity::random()).unwrap().host;
        let names: BTreeSet<_> = (0..64).map(|_| host()).collect();
        assert_eq!(names.len(), 64, "each is another, of the same settings: {names:?}");
        // Half of the bits of a random number differ from those of the next; a clock or a count
        // leaves most of them.
        let bits = |name: &String| u64::from_str_radix(&name["egret-".len()..], 16).unwrap();
        let (set, unset) =
            names.iter().map(bits).fold((0, 0), |(set, unset), bits| (set | bits, unset | !bits));
        assert_eq!((set, unset), (u64::MAX, u64::MAX), "every bit is chosen");
    }
}
