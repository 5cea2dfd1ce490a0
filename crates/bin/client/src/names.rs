//! Changes of names on a server: other names, new folders, removals, each in one step.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::Body;
use ureq::http::{Response, StatusCode};

use crate::http::expect;
use crate::remote::{Remote, RemoteEntry};

impl Remote {
    /// Gives it the name of another on the same server, with `replaces` in the place of the item that is there.
    ///
    /// # Errors
    /// As [`crate::HttpClient::ask`]; the server's own; the other is on another server.
    pub fn rename(&self, to: &Self, replaces: bool) -> anyhow::Result<()> {
        let ((server, from), (other, path)) = (self.split(), to.split());
        anyhow::ensure!(
            server == other,
            "{server} and {other} are two servers: copy it (`isocast cp`), then remove it"
        );
        let replace = if replaces { "true" } else { "false" };
        self.order("move", &[("from", &from), ("to", &path), ("replace", replace)])
    }

    /// Makes it an empty folder.
    ///
    /// # Errors
    /// As [`crate::HttpClient::ask`]; the server's own.
    pub fn make_folder(&self) -> anyhow::Result<()> {
        let made = self.order("folder", &[("path", &self.split().1)]);
        match made.is_err().then(|| self.find("")) {
            Some(Ok(Some(RemoteEntry::Folder(_)))) => {
                anyhow::bail!("there is already a folder of this name")
            }
            Some(Ok(Some(RemoteEntry::Content(_)))) => anyhow::bail!("there is a content of this name"),
            _ => made,
        }
    }

    /// Makes it a folder, with those above it, unless it is one.
    ///
    /// # Errors
    /// As [`Remote::make_folder`].
    pub fn make_folders(&self) -> anyhow::Result<()> {
        if self.is_folder()? {
            return Ok(());
        }
        if let Some((above, _)) = self.url.rsplit_once('/').filter(|_| self.split().1.contains('/')) {
            Self { url: above.to_owned(), ..self.clone() }.make_folders()?;
        }
        self.make_folder()
    }

    /// Removes it; a folder with all in it.
    ///
    /// # Errors
    /// As [`crate::HttpClient::ask`]; the server's own.
    pub fn remove_item(&self) -> anyhow::Result<()> {
        self.order("remove", &[("path", &self.split().1)])
    }

    /// Removes the folder of this name if nothing is in it: true if it is gone. Contents that the server does not list keep it; in a volume it may have gone with
    /// the last content in it.
    ///
    /// # Errors
    /// As [`crate::HttpClient::ask`]; the server's own.
    pub fn remove_empty_folder(&self, name: &str) -> anyhow::Result<bool> {
        let path = self.below(name).split().1;
        let answer = expect(self.ask_change("remove", &[("path", &path), ("empty", "true")])?, &[204, 404, 409])?;
        Ok(answer.status() != StatusCode::CONFLICT)
    }

    fn order(&self, action: &str, query: &[(&str, &str)]) -> anyhow::Result<()> {
        expect(self.ask_change(action, query)?, &[201, 204]).map(drop)
    }

    fn ask_change(&self, action: &str, query: &[(&str, &str)]) -> anyhow::Result<Response<Body>> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let query: Vec<_> = query.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect();
        let url = format!("{}/api/v1/contents/{action}?{}", self.split().0, query.join("&"));
        self.client.ask("POST", &url, &[])
    }
}
