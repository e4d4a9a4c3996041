//! `egret info --env`: what nodes of this environment would be told.

use std::borrow::Cow;
use std::fmt::Write;

use egret::node::settings::{Report, Setting, Settings};
use serde::Serialize;

/// A setting. The names are a contract: fields are added, never renamed.
#[derive(Debug, Serialize)]
pub(crate) struct SettingInfo {
    /// Of a variable that looks like one and is none, the variable.
    name: Cow<'static, str>,
    variable: Cow<'static, str>,
    /// Of a secret only that there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Who says so: `default`, `environment`, `descriptor N`, or a file.
    origin: String,
    help: &'static str,
}

/// All settings, as this process would read them.
pub(crate) fn all() -> anyhow::Result<Vec<SettingInfo>> {
    let info = |setting: Setting| {
        let Setting { name, variable, value, origin, help, .. } = setting;
        SettingInfo {
            name: name.into(),
            variable: variable.into(),
            value,
            origin: origin.to_string(),
            help,
        }
    };
    let Report { settings, unknown, .. } = Settings::report()?;
    let unknown = unknown.into_iter().map(|variable| SettingInfo {
        name: variable.clone().into(),
        variable: variable.into(),
        value: None,
        origin: "environment".to_owned(),
        help: "no such setting: nobody reads it",
    });
    Ok(settings.into_iter().map(info).chain(unknown).collect())
}

/// A line for each.
pub(crate) fn text(settings: &[SettingInfo]) -> String {
    let width = |cell: fn(&SettingInfo) -> usize| settings.iter().map(cell).max().unwrap_or(0);
    let variable = width(|setting| setting.variable.len());
    let value = width(|setting| shown(setting).len());
    let origin = width(|setting| setting.origin.len());
    let mut out = String::new();
    for setting in settings {
        let SettingInfo { variable: name, origin: from, help, .. } = setting;
        let is = shown(setting);
        let _ = writeln!(out, "{name:<variable$}  {is:<value$}  {from:<origin$}  {help}");
    }
    out.trim_end().to_owned()
}

fn shown(setting: &SettingInfo) -> &str {
    setting.value.as_deref().unwrap_or("-")
}
