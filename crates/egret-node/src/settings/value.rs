//! Values of settings, read from their texts.

use std::time::Duration;

use egret_net::rt::Deadline;
use egret_net::vi::{Encrypt, Trust, Wait};

use crate::pool::Location;

/// A type that can be read from the text of a setting.
pub(crate) trait SettingValue: Sized {
    /// Reads it, or says what is wrong.
    fn read(text: &str) -> Result<Self, String>;
}

impl SettingValue for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl SettingValue for u32 {
    fn read(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| "a number is expected".to_owned())
    }
}

impl SettingValue for Location {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl SettingValue for Trust {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "isolated" => Ok(Self::Isolated),
            "cooperating" => Ok(Self::Cooperating),
            _ => Err("isolated or cooperating is expected".to_owned()),
        }
    }
}

impl SettingValue for Encrypt {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "between-machines" => Ok(Self::BetweenMachines),
            "on" => Ok(Self::Always),
            "off" => Ok(Self::Never),
            _ => Err("between-machines, on or off is expected".to_owned()),
        }
    }
}

impl SettingValue for Wait {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "spin" => Ok(Self::Spin),
            "balanced" => Ok(Self::Balanced),
            "frugal" => Ok(Self::Frugal),
            _ => Err("spin, balanced or frugal is expected".to_owned()),
        }
    }
}

impl SettingValue for Deadline {
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "never" {
            return Ok(Self::UntilDead);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let bad = || "a time is expected, as 500ms, 30s or 2m; or never".to_owned();
        let number: u64 = number.parse().map_err(|_| bad())?;
        let unit_us = match unit {
            "us" => 1,
            "ms" => 1000,
            "" | "s" => 1_000_000,
            "m" => 60_000_000,
            _ => return Err(bad()),
        };
        let us = number.checked_mul(unit_us).ok_or_else(bad)?;
        Ok(Self::In(Duration::from_micros(us)))
    }
}

/// Fabrics in order of preference, and fabrics that are rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FabricList {
    /// Empty: all fabrics that are not rejected.
    pub(crate) wanted: Vec<String>,
    pub(crate) rejected: Vec<String>,
}

impl SettingValue for FabricList {
    fn read(text: &str) -> Result<Self, String> {
        let mut list = Self { wanted: Vec::new(), rejected: Vec::new() };
        for name in text.split(',').map(str::trim) {
            let (to, name) = match name.strip_prefix('^') {
                Some(name) => (&mut list.rejected, name),
                None => (&mut list.wanted, name),
            };
            if name.is_empty() {
                return Err("a list of fabrics is expected, as shm,tcp or ^udp".to_owned());
            }
            if !to.iter().any(|known| known == name) {
                to.push(name.to_owned());
            }
        }
        Ok(list)
    }
}
