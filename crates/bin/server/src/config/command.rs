//! The flags of `serve`, and the subcommand `config`.
//!
//! Promise: a flag is a setting like any other and goes the same way through the checks. Not here: the work of `serve`.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use units::counted;

use super::edit::assigned;
use super::file::replace_text;
use super::problem::Problem;
use super::settings::Settings;
use super::{Config, ConfigError, SAMPLE, removals};

/// Serve folders of videos over HTTP, each stream at a guaranteed rate.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Configuration file (TOML), and then `conf.d/*.toml` beside it; the environment and the flags below override it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address and port to serve on [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// As other servers have it.
    #[arg(long, hide = true, value_name = "PORT", value_parser = no_port)]
    port: Option<String>,
    /// As other servers have it.
    #[arg(long, hide = true, alias = "address", value_name = "ADDRESS", value_parser = no_bind)]
    bind: Option<String>,
    /// Folders to serve; several are merged into one namespace.
    #[arg(value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// A folder to serve, as a flag (repeatable).
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// The disks of a volume to serve, beside folders or instead (repeatable).
    #[arg(long = "volume", value_name = "DEV[,DEV…]")]
    volumes: Vec<String>,
    /// Folder for disk profiles and the index.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Where no users are configured, let programs on this machine write (`curl -T`). A proxy on this machine that does
    /// not name its client is one of them, and so is each client behind it.
    #[arg(long)]
    local_writes: bool,
    /// Any other setting, for example `--set schedule.be_share=0%` (repeatable).
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_assignment)]
    set: Vec<(String, String)>,
    /// Print everything that was found out at the start: each disk's measurements, the permissions there are and the missing ones.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Measure the disks that are not known yet, keep the results in the state folder, and end.
    #[arg(long)]
    pub(crate) measure_only: bool,
}

/// Prints the flag to write instead.
fn no_port(text: &str) -> Result<String, String> {
    Err(format!("there is no such option; write `--listen 127.0.0.1:{text}`, or `0.0.0.0:{text}` for other machines"))
}

/// Prints the flag to write instead.
fn no_bind(text: &str) -> Result<String, String> {
    let address = text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |ip| SocketAddr::new(ip, 8080).to_string());
    Err(format!("there is no such option; write `--listen {address}`, with the port"))
}

impl ServeArgs {
    /// With one file for a folder, as `config check` has it: that is the configuration.
    ///
    /// # Errors
    /// One of several is no folder, or there is nothing of its name.
    fn with_file(&self) -> anyhow::Result<Self> {
        match self.folders.as_slice() {
            [file] if self.config.is_none() && file.is_file() => {
                Ok(Self { config: Some(file.clone()), folders: Vec::new(), ..self.clone() })
            }
            folders => match folders.iter().find(|folder| !folder.is_dir()) {
                Some(other) => anyhow::bail!("{} is neither a folder nor a configuration file", other.display()),
                None => Ok(self.clone()),
            },
        }
    }

    /// Puts the flags over the settings of the file and the environment.
    pub(super) fn add_to(&self, settings: &mut Settings) {
        for (key, value) in &self.set {
            settings.add_flag("--set", key, value.clone());
        }
        if let Some(listen) = &self.listen {
            settings.add_flag("--listen", "listen", listen.clone());
        }
        let roots: Vec<_> =
            self.roots.iter().chain(&self.folders).map(|root| root.to_string_lossy().into_owned()).collect();
        if !roots.is_empty() {
            settings.add_flag_list("--root", "roots", roots);
        }
        if !self.volumes.is_empty() {
            settings.add_flag_list("--volume", "volumes", self.volumes.clone());
        }
        if let Some(state) = &self.state {
            settings.add_flag("--state", "state", state.to_string_lossy().into_owned());
        }
        if self.local_writes {
            settings.add_flag("--local-writes", "access.local_writes", "true".to_owned());
        }
    }
}

fn parse_assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Check configuration files, or show the settings in effect.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check a file, the parts in `conf.d` beside it, and whether this machine has the things they name; start nothing.
    Check {
        /// The file.
        file: PathBuf,
        /// Print JSON: whether it is usable, and each problem.
        #[arg(long)]
        json: bool,
    },
    /// Print the configuration that `serve` would run with, given the same flags, as TOML. A FILE for a folder is the configuration, as
    /// with --config.
    Show {
        #[command(flatten)]
        serve: ServeArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the sample: every key with its meaning, and its default behind a `#`.
    Example,
    /// Put values into a file, whose comments stay, once the file is right with them. A running server reads it at a reload.
    Set {
        /// The file.
        file: PathBuf,
        /// A key and its value, `limits.connections=500` for example (repeatable).
        #[arg(value_name = "KEY=VALUE", value_parser = parse_assignment, required = true)]
        values: Vec<(String, String)>,
    },
    /// Print which contents the `keep` jobs and rings of a configuration would remove now, in force or not; remove nothing.
    Removals {
        /// The file.
        file: PathBuf,
        /// The server of the folders [default: at the address that the file has for it].
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// A file that holds `name:password`, where reading needs a login.
        #[arg(long, value_name = "FILE")]
        login: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl ConfigArgs {
    /// Runs the subcommand, and prints to `out`.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong: every problem with its line and key.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.command {
            ConfigCommand::Check { file, json } => {
                let checked = Config::load_with_parts(file).and_then(|config| config.check_machine().map(|()| config));
                let hints = checked.as_ref().map(Config::hints).unwrap_or_default();
                if *json {
                    let problems: Vec<_> = checked
                        .as_ref()
                        .err()
                        .map_or(&[][..], ConfigError::problems)
                        .iter()
                        .map(problem_json)
                        .collect();
                    let verdict =
                        json!({ "file": file, "usable": checked.is_ok(), "problems": problems, "hints": hints });
                    writeln!(out, "{verdict:#}")?;
                }
                let config = checked?;
                if !*json {
                    let served = [(config.roots.len(), "folder"), (config.volumes.len(), "volume")];
                    let served = served.into_iter().filter(|(count, _)| *count > 0);
                    let served: Vec<String> = served.map(|(count, thing)| counted(count, thing)).collect();
                    writeln!(out, "{}: usable; serves {} on {}", file.display(), served.join(", "), config.listen)?;
                    hints.iter().try_for_each(|hint| writeln!(out, "hint: {hint}"))?;
                }
            }
            ConfigCommand::Show { serve, json } => {
                let shown = Config::load(&serve.with_file()?)?.to_string();
                if *json {
                    let table: toml::Table = shown.parse().context("a shown configuration is TOML")?;
                    writeln!(out, "{}", serde_json::to_string_pretty(&table)?)?;
                } else {
                    write!(out, "{shown}")?;
                }
            }
            ConfigCommand::Example => write!(out, "{SAMPLE}")?,
            ConfigCommand::Set { file, values } => {
                let old = fs::read_to_string(file).with_context(|| file.display().to_string())?;
                let new = assigned(&old, values).map_err(anyhow::Error::msg)?;
                let args = ServeArgs { config: Some(file.clone()), ..ServeArgs::default() };
                Config::load_edited(&args, file, &new)?;
                replace_text(file, &new).with_context(|| file.display().to_string())?;
            }
            ConfigCommand::Removals { file, url, login, json } => {
                let login = login.as_deref().map(client::Login::read).transpose()?;
                let config = Config::load_with_parts(file)?;
                let url = url.clone().unwrap_or_else(|| removals::own_url(config.listen));
                removals::show(&config, (&url, login), *json, out)?;
            }
        }
        Ok(())
    }
}

fn problem_json(problem: &Problem) -> serde_json::Value {
    json!({
        "place": problem.origin.as_ref().map(ToString::to_string),
        "key": problem.key,
        "message": problem.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_settings() {
        let args = ServeArgs {
            listen: Some("[::1]:9000".to_owned()),
            roots: vec!["/a".into()],
            folders: vec!["/b".into()],
            state: Some("/s".into()),
            local_writes: true,
            set: vec![parse_assignment("schedule.be_share = 0%").unwrap()],
            ..ServeArgs::default()
        };
        let config = Config::load(&args).unwrap();
        assert_eq!(config.listen.port(), 9000);
        assert_eq!(config.roots.len(), 2);
        assert_eq!(config.state, PathBuf::from("/s"));
        assert!(config.local_writes);
        assert_eq!(config.schedule.best_effort_percent, 0);
    }

    #[test]
    fn the_shown_configuration_loads_as_the_same() {
        let set = vec![
            parse_assignment("schedule.cycle=256ms").unwrap(),
            parse_assignment("path_rates.a/b.d/=2.5G").unwrap(),
        ];
        let args = ServeArgs { set, roots: vec!["/a \"quoted\"".into()], ..ServeArgs::default() };
        let config = Config::load(&args).unwrap();
        let shown = config.to_string();
        assert_eq!(Config::load_file("shown.toml".as_ref(), &shown).unwrap(), config, "{shown}");
    }

    #[test]
    fn a_shown_configuration_is_of_a_file_or_folders_that_are_there() {
        let args = ServeArgs { folders: vec!["/nonexistent/typo.toml".into()], ..ServeArgs::default() };
        let error = args.with_file().expect_err("nothing of this name").to_string();
        assert_eq!(error, "/nonexistent/typo.toml is neither a folder nor a configuration file");
        let args = ServeArgs { folders: vec!["/".into(), "/tmp".into()], ..ServeArgs::default() };
        assert_eq!(args.with_file().expect("folders").folders, args.folders);
    }

    #[test]
    fn a_configuration_names_the_address_of_its_own_server() {
        let url = |listen: &str| removals::own_url(listen.parse().expect("an address"));
        assert_eq!(url("127.0.0.1:9000"), "http://127.0.0.1:9000");
        assert_eq!(url("0.0.0.0:9000"), "http://127.0.0.1:9000");
        assert_eq!(url("[::]:80"), "http://[::1]:80");
    }

    #[test]
    fn a_volume_has_a_disk() {
        for disks in ["", ",", " , "] {
            let args = ServeArgs { volumes: vec![disks.to_owned()], ..ServeArgs::default() };
            let error = Config::load(&args).expect_err("no disk").to_string();
            assert!(error.contains("volumes: a volume has no disk: name its disks"), "{error}");
        }
    }

    #[test]
    fn an_address_as_other_servers_have_it_gets_ours() {
        assert!(no_bind("0.0.0.0").unwrap_err().contains("`--listen 0.0.0.0:8080`"));
        assert!(no_bind("::1").unwrap_err().contains("`--listen [::1]:8080`"));
        assert!(no_bind("0.0.0.0:80").unwrap_err().contains("`--listen 0.0.0.0:80`"));
    }

    #[test]
    fn a_check_tells_programs_each_problem() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("isocast.toml");
        let state = folder.path().join("state");
        let check = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let args = ConfigArgs { command: ConfigCommand::Check { file: file.clone(), json: true } };
            let mut out = Vec::new();
            let checked = args.run(&mut out);
            (checked.is_ok(), serde_json::from_slice::<serde_json::Value>(&out).unwrap())
        };
        let good = format!("roots = [{:?}]\nstate = {state:?}\n", folder.path());
        let (usable, verdict) = check(&good);
        assert_eq!((usable, &verdict["usable"], &verdict["problems"]), (true, &json!(true), &json!([])), "{verdict}");
        let (usable, verdict) = check(&format!("{good}[plane]\nengine = \"none\"\n"));
        assert_eq!(
            (usable, &verdict["usable"], &verdict["problems"][0]["key"]),
            (false, &json!(false), &json!("plane.engine"))
        );
        assert_eq!(verdict["problems"][0]["place"], json!(format!("{}:4", file.display())));
    }

    #[test]
    fn a_wrong_flag_is_named() {
        let set = vec![parse_assignment("schedule.cycles=250ms").unwrap()];
        let error = Config::load(&ServeArgs { set, ..ServeArgs::default() }).unwrap_err().to_string();
        assert!(
            error.contains("--set: schedule.cycles: there is no such key; did you mean `schedule.cycle`?"),
            "{error}"
        );
        let args = ServeArgs { listen: Some("8080".to_owned()), ..ServeArgs::default() };
        let error = Config::load(&args).unwrap_err().to_string();
        assert!(error.contains("--listen: listen: `8080` is not an address with a port"), "{error}");
        let args = ServeArgs { config: Some("/nonexistent.toml".into()), ..ServeArgs::default() };
        assert!(Config::load(&args).unwrap_err().to_string().contains("cannot read /nonexistent.toml"));
    }

    #[test]
    fn a_value_is_set_where_the_whole_file_is_right_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("isocast.toml");
        fs::write(&file, "# of the house\nlisten = \"127.0.0.1:80\"\n").unwrap();
        let set = |key: &str, value: &str| {
            let values = vec![(key.to_owned(), value.to_owned())];
            ConfigArgs { command: ConfigCommand::Set { file: file.clone(), values } }.run(&mut Vec::new())
        };
        set("limits.connections", "500").expect("a right value");
        let text = "# of the house\nlisten = \"127.0.0.1:80\"\n\n[limits]\nconnections = 500\n";
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let wrong = set("limits.connectons", "500").expect_err("no such key").to_string();
        assert!(wrong.contains("limits.connections"), "{wrong}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let mut out = Vec::new();
        ConfigArgs { command: ConfigCommand::Example }.run(&mut out).expect("printed");
        assert!(String::from_utf8(out).unwrap().starts_with("# Configuration of `isocast serve`."));
    }
}
