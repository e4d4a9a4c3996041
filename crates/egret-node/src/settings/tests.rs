//! Who counts first, what a file may say, and what is never shown.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use egret_net::rt::Deadline;
use egret_net::vi::Secret;

use super::*;

/// A directory that is gone with its test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("egret-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// A file that its owner alone may read.
    fn hide(&self, name: &str, text: &str) {
        self.write(name, text);
        self.set_mode(name, 0o600);
    }

    fn set_mode(&self, name: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.0.join(name), mode).unwrap();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(environment: &[(&str, &str)], dir: &Dir) -> Result<Settings, JoinError> {
    let owned = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::read_from(owned, &dir.0)
}

#[test]
fn the_program_counts_first_then_the_environment_then_the_file() {
    let dir = Dir::new("precedence");
    dir.write("egret.toml", "# ours\npool = \"filed\" # a pool\nsize = 2\nrank = 1\n");
    let mut settings = read(&[("EGRET_SIZE", "3"), ("EGRET_RANK", "2")], &dir).unwrap();
    settings.say(SettingKey::Rank, "0".to_owned(), Origin::Code);
    let file = Origin::File(dir.0.join("egret.toml"));
    for (key, value, origin) in [
        (SettingKey::Pool, "filed", file),
        (SettingKey::Size, "3", Origin::Environment),
        (SettingKey::Rank, "0", Origin::Code),
        (SettingKey::Deadline, "30s", Origin::Default),
    ] {
        let setting = settings.setting(key);
        assert_eq!((setting.value.as_deref(), setting.origin), (Some(value), origin));
    }
    assert_eq!(settings.value::<u32>(SettingKey::Size).unwrap(), Some(3));
}

#[test]
fn a_file_is_looked_for_in_three_places() {
    let (here, home) = (Dir::new("here"), Dir::new("home"));
    let users = home.0.to_str().unwrap();
    std::fs::create_dir_all(home.0.join("egret")).unwrap();
    home.write("egret/egret.toml", "pool = \"home\"");
    let pool = |environment: &[(&str, &str)]| {
        read(environment, &here).unwrap().needed::<String>(SettingKey::Pool).unwrap()
    };
    assert_eq!(pool(&[]), "pool");
    assert_eq!(pool(&[("XDG_CONFIG_HOME", users)]), "home");
    here.write("egret.toml", "pool = \"here\"");
    assert_eq!(pool(&[("XDG_CONFIG_HOME", users)]), "here");
    here.write("named", "pool = \"named\"");
    assert_eq!(pool(&[("XDG_CONFIG_HOME", users), ("EGRET_CONFIG", "named")]), "named");
    assert!(read(&[("EGRET_CONFIG", "nowhere")], &here).is_err());
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    let dir = Dir::new("lines");
    for (text, line, said) in [
        ("\npoool = \"a\"", 2, "no setting \"poool\""),
        ("pool", 1, "name = value"),
        ("pool = a", 1, "in quotes"),
        ("pool = \"a", 1, "does not end"),
        ("pool = \"a\" b", 1, "behind the value"),
        ("pool = \"a\"\npool = \"b\"", 2, "twice"),
        ("pool = \"\\x\"", 1, "is expected"),
        ("config = \"other\"", 1, "no setting"),
    ] {
        dir.write("egret.toml", text);
        let why = read(&[], &dir).unwrap_err().to_string();
        assert!(why.contains(said) && why.contains(&format!("egret.toml:{line}:")), "{why}");
    }
}

#[test]
fn a_text_that_is_meant_to_be_another_secret_is_not_taken_for_a_chosen_one() {
    let whole = format!("egret1.{}", "0123456789abcdef".repeat(4));
    let read = |text: &str| {
        let said = [("EGRET_SECRET".to_owned(), text.to_owned())];
        Settings::read_from(said, Path::new("")).map(|settings| settings.secret().unwrap())
    };
    assert!(read(&whole).unwrap().unwrap().is_random());
    assert!(!read("correct horse").unwrap().unwrap().is_random());
    for damaged in [&whole[..70], &format!("{whole}.abcd"), "egret1.zz"] {
        let why = read(damaged).unwrap_err();
        assert!(
            matches!(&why, JoinError::DamagedSecret { said } if said == "EGRET_SECRET"),
            "{why}"
        );
    }
    let key = read(&"0123456789abcdef".repeat(4)).unwrap_err();
    assert!(matches!(key, JoinError::KeyAsSecret { .. }), "{key}");
}

#[test]
fn a_secret_is_never_shown() {
    let dir = Dir::new("secret");
    dir.hide("hidden", "hush-file\n");
    let from_file = read(&[("EGRET_SECRET_FILE", "hidden")], &dir).unwrap();
    assert_eq!(from_file.secret().unwrap(), Some(Secret::from("hush-file")));
    let both = [("EGRET_SECRET_FILE", "hidden"), ("EGRET_SECRET", "hush-said")];
    let said = read(&both, &dir).unwrap();
    assert_eq!(said.secret().unwrap(), Some(Secret::from("hush-said")));
    for settings in [from_file, said] {
        let shown = format!("{settings:?} {:?}", settings.all());
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("(not shown)"), "{shown}");
    }
    assert_eq!(read(&[], &dir).unwrap().secret().unwrap(), None);
}

#[test]
fn an_empty_secret_is_an_error_and_not_none() {
    let dir = Dir::new("empty-secret");
    let refused = |environment: &[(&str, &str)], names: &str| {
        let why = read(environment, &dir).unwrap_err().to_string();
        assert!(why.contains("is empty") && why.contains(names), "{why}");
    };
    for text in ["", " ", "\n", " \t\r\n"] {
        refused(&[("EGRET_SECRET", text)], "EGRET_SECRET");
        dir.hide("hidden", text);
        refused(&[("EGRET_SECRET_FILE", "hidden")], "hidden");
    }
    dir.hide("hidden", "hush");
    refused(&[("EGRET_SECRET", ""), ("EGRET_SECRET_FILE", "hidden")], "EGRET_SECRET");
    refused(&[("EGRET_SECRET_FILE", "")], "secret_file");
    dir.hide("egret.toml", "secret = \"\"\n");
    refused(&[], "egret.toml");
    assert!(read(&[("EGRET_SECRET", "hush")], &dir).is_err(), "the file is wrong all the same");
}

#[test]
fn a_missing_secret_file_is_an_error_with_its_path() {
    let dir = Dir::new("missing-secret");
    let why = read(&[("EGRET_SECRET_FILE", "nowhere")], &dir).unwrap_err().to_string();
    assert!(why.contains(dir.0.join("nowhere").to_str().unwrap()), "{why}");
    dir.write("egret.toml", "secret_file = \"gone\"\n");
    let why = read(&[], &dir).unwrap_err().to_string();
    assert!(why.contains(dir.0.join("gone").to_str().unwrap()), "{why}");
    let why = read(&[("EGRET_SECRET_FILE", ".")], &dir).unwrap_err().to_string();
    assert!(why.contains("directory"), "{why}");
}

#[test]
fn a_secret_file_that_others_may_use_is_refused() {
    let dir = Dir::new("open-secret");
    dir.hide("hidden", "hush");
    std::os::unix::fs::symlink("hidden", dir.0.join("link")).unwrap();
    for mode in [0o640, 0o604, 0o660, 0o644, 0o620, 0o602, 0o666] {
        dir.set_mode("hidden", mode);
        for name in ["hidden", "link"] {
            let why = read(&[("EGRET_SECRET_FILE", name)], &dir).unwrap_err();
            let shown = why.to_string();
            let path = dir.0.join(name);
            assert!(shown.contains(path.to_str().unwrap()), "{shown}");
            assert!(shown.contains(&format!("{mode:04o}")), "{shown}");
            assert!(shown.contains("chmod 600") && !shown.contains("hush"), "{shown}");
        }
    }
    for mode in [0o600, 0o400] {
        dir.set_mode("hidden", mode);
        for name in ["hidden", "link"] {
            let settings = read(&[("EGRET_SECRET_FILE", name)], &dir).unwrap();
            assert_eq!(settings.secret().unwrap(), Some(Secret::from("hush")));
        }
    }
    // The file with settings is one as soon as a secret stands in it.
    dir.write("egret.toml", "pool = \"p\"\n");
    dir.set_mode("egret.toml", 0o644);
    assert!(read(&[], &dir).is_ok());
    dir.write("egret.toml", "secret = \"hush\"\n");
    let why = read(&[], &dir).unwrap_err().to_string();
    assert!(why.contains("egret.toml") && why.contains("chmod 600"), "{why}");
    dir.set_mode("egret.toml", 0o600);
    assert_eq!(read(&[], &dir).unwrap().secret().unwrap(), Some(Secret::from("hush")));
}

#[test]
fn the_file_that_is_checked_is_the_one_that_is_read() {
    let dir = Dir::new("swapped");
    let path = dir.0.join("egret.toml");
    for (read, lies_there, allowed) in [(0o644, 0o600, false), (0o600, 0o644, true)] {
        dir.write("egret.toml", "secret = \"hush\"\n");
        dir.set_mode("egret.toml", read);
        let open = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        dir.write("egret.toml", "secret = \"other\"\n");
        dir.set_mode("egret.toml", lies_there);
        match file::read_open(open, &path) {
            Ok(said) => assert!(allowed && said == [(SettingKey::Secret, "hush".to_owned())]),
            Err(why) => assert!(!allowed && why.to_string().contains("0644"), "{why}"),
        }
    }
}

#[test]
fn what_is_no_file_is_not_advised_to_change_its_mode() {
    let dir = Dir::new("devices");
    for said in ["/dev/null", "/dev/zero"] {
        let why = read(&[("EGRET_SECRET_FILE", said)], &dir).unwrap_err().to_string();
        assert!(why.contains("no regular file") && why.contains("secret_file"), "{why}");
        assert!(why.starts_with(said) && !why.contains("chmod"), "{why}");
        let why = read(&[("EGRET_CONFIG", said)], &dir).unwrap_err().to_string();
        assert!(why.contains("no regular file") && why.contains("EGRET_CONFIG"), "{why}");
    }
}

#[test]
fn a_secret_file_is_the_users_own_or_roots() {
    let path = PathBuf::from("hidden");
    let ask = |mode, owner, user| secret::may_hold(&path, mode, owner, user);
    for (owner, user) in [(7, 7), (0, 7), (0, 0)] {
        ask(0o100_600, owner, user).unwrap();
        let why = ask(0o100_640, owner, user).unwrap_err();
        assert!(matches!(why, JoinError::SecretOpen { mode: 0o640, .. }), "{why}");
    }
    for (owner, user) in [(8, 7), (7, 0)] {
        let why = ask(0o100_600, owner, user).unwrap_err();
        assert!(matches!(why, JoinError::SecretOwner { .. }), "{why}");
        let (shown, owner, user) =
            (why.to_string(), format!("user {owner},"), format!("user {user};"));
        assert!(shown.contains(&owner) && shown.contains(&user), "{shown}");
    }
}

#[test]
fn values_are_read_or_refused_with_their_origin() {
    let dir = Dir::new("values");
    let deadline = |text: &str| {
        read(&[("EGRET_DEADLINE", text)], &dir).unwrap().needed::<Deadline>(SettingKey::Deadline)
    };
    assert_eq!(deadline("250ms").unwrap(), Deadline::In(std::time::Duration::from_millis(250)));
    assert_eq!(deadline("500us").unwrap(), Deadline::In(std::time::Duration::from_micros(500)));
    assert_eq!(deadline("2m").unwrap(), Deadline::In(std::time::Duration::from_secs(120)));
    assert_eq!(deadline("7").unwrap(), Deadline::In(std::time::Duration::from_secs(7)));
    assert_eq!(deadline("never").unwrap(), Deadline::UntilDead);
    for bad in ["", "s", "-1s", "3h", "99999999999999999999s", "18446744073709551615m"] {
        let why = deadline(bad).unwrap_err().to_string();
        assert!(why.contains("deadline") && why.contains("environment"), "{why}");
    }
    let list = FabricList::read("shm, ^udp,tcp,shm").unwrap();
    assert_eq!(list.wanted, ["shm", "tcp"]);
    assert_eq!(list.rejected, ["udp"]);
    assert!(FabricList::read("shm,,tcp").is_err());
    let missing = Settings::default().needed::<u32>(SettingKey::Size).unwrap_err().to_string();
    assert!(missing.contains("EGRET_SIZE"), "{missing}");
}

#[test]
fn unknown_variables_are_reported() {
    let dir = Dir::new("unknown");
    let names = ["EGRET_FABRIC", "EGRET_FABRICS", "EGRET_SEED", "EGRET_TEST_X", "FABRIC"];
    let settings = read(&names.map(|name| (name, "1")), &dir).unwrap();
    assert_eq!(settings.unknown(), ["EGRET_FABRIC"]);
}

#[test]
fn a_program_may_say_any_deadline() {
    use std::time::Duration;
    let us = Duration::from_micros;
    for (said, meant) in [
        (us(500), us(500)),
        (Duration::from_nanos(1), us(1)),
        (Duration::from_millis(1500), Duration::from_millis(1500)),
        (Duration::MAX, us(u64::MAX)),
    ] {
        let config = Config::new("p").deadline(Deadline::In(said));
        let deadline: Deadline = config.settings().needed(SettingKey::Deadline).unwrap();
        assert_eq!(deadline, Deadline::In(meant));
    }
}
