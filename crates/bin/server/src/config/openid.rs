//! `[openid]`: the provider of identities that logs browsers in.
//!
//! Not here: asking it (`serve::identity`).

use std::path::PathBuf;

use super::parse_path;
use super::settings::Settings;
use super::values::{parse_choice, stays_private};

/// Scopes of a request by default.
const SCOPES: [&str; 3] = ["openid", "profile", "email"];

/// A provider of identities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenIdConfig {
    /// Its issuer.
    pub(crate) issuer: String,
    /// The name by which it knows this server.
    pub(crate) client: String,
    /// A file with the secret that both share.
    pub(crate) secret: Option<PathBuf>,
    /// Scopes of a request.
    pub(crate) scopes: Vec<String>,
    /// The claim with an account's name.
    pub(crate) name_claim: String,
    /// The claim with its groups.
    pub(crate) groups_claim: Option<String>,
    /// Accounts are added for users whom the provider knows.
    pub(crate) add_users: bool,
}

impl OpenIdConfig {
    pub(super) fn take(settings: &mut Settings) -> Option<Self> {
        let issuer = settings.take_optional("openid.issuer", parse_issuer);
        let client = settings.take_optional("openid.client", parse_text);
        let secret = settings.take_optional("openid.secret", parse_path);
        let scopes = settings.take_list("openid.scopes");
        let name_claim = settings.take("openid.name_claim", "preferred_username".to_owned(), parse_text);
        let groups_claim = settings.take_optional("openid.groups_claim", parse_text);
        let add_users = settings.take("openid.add_users", false, parse_choice);
        let scopes = if scopes.is_empty() { SCOPES.map(str::to_owned).to_vec() } else { scopes };
        settings.show("openid.scopes", &scopes);
        if !scopes.iter().any(|scope| scope == SCOPES[0]) {
            settings.contradiction(
                "openid.scopes",
                "`openid` is missing: without it a provider proves no identity".to_owned(),
            );
        }
        let needed =
            |key, example: &str| (key, format!("it is needed for logins by a provider; write for example `{example}`"));
        let missing = match (&issuer, &client) {
            (None, Some(_)) => Some(needed("openid.issuer", "https://id.example/realms/home")),
            (Some(_), None) => Some(needed("openid.client", "isocast")),
            (None, None) if secret.is_some() || groups_claim.is_some() || add_users => {
                Some(needed("openid.issuer", "https://id.example/realms/home"))
            }
            _ => None,
        };
        if let Some((key, message)) = missing {
            settings.contradiction(key, message);
        }
        let Some((issuer, client)) = issuer.zip(client) else {
            settings.hide("openid");
            return None;
        };
        Some(Self { issuer, client, secret, scopes, name_claim, groups_claim, add_users })
    }
}

/// An issuer: an address of HTTPS, or of a program on this machine.
fn parse_issuer(text: &str) -> Result<String, String> {
    match text.contains(['?', '#', ' ']) || !stays_private(text) {
        false => Ok(text.to_owned()),
        true => Err(format!("`{text}` is no issuer; write its address, for example `https://id.example/realms/home`")),
    }
}

fn parse_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it is empty: leave it out, or write a name".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("f.toml".as_ref(), &format!("[openid]\n{text}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_provider_is_read_and_shown_or_the_missing_half_is_named() {
        let good = "issuer = \"https://id.example/realms/home\"\nclient = \"isocast\"\nsecret = \"/s\"\ngroups_claim = \"groups\"\nadd_users = true\n";
        let config = load(good).expect("good");
        let shown = Config::load_file("f.toml".as_ref(), &config.to_string()).expect("shown");
        assert_eq!(shown, config, "{config}");
        let openid = config.openid.expect("a provider");
        assert_eq!((openid.name_claim.as_str(), openid.scopes.len()), ("preferred_username", 3));
        assert_eq!(load("").expect("none").openid, None);
        for (text, said) in [
            ("issuer = \"https://id.example\"\n", "openid.client: it is needed"),
            ("client = \"isocast\"\n", "openid.issuer: it is needed"),
            ("add_users = true\n", "openid.issuer: it is needed"),
            (
                "issuer = \"http://id.example\"\nclient = \"a\"\n",
                "f.toml:2: openid.issuer: `http://id.example` is no issuer",
            ),
            ("issuer = \"http://localhost.evil.example\"\nclient = \"a\"\n", "is no issuer"),
            (
                "issuer = \"https://id.example\"\nclient = \"a\"\nscopes = [\"profile\"]\n",
                "openid.scopes: `openid` is missing",
            ),
        ] {
            let error = load(text).expect_err(text);
            assert!(error.contains(said), "{error}");
        }
        assert!(load("issuer = \"http://127.0.0.1:9\"\nclient = \"a\"\n").is_ok());
    }
}
