//! The API of a running server: its documents, and orders to it.

use serde::de::DeserializeOwned;

use crate::http::{HttpClient, Login, expect};

/// The API of a server.
#[derive(Debug, Clone)]
pub struct ServerApi {
    pub(crate) client: HttpClient,
    /// Without a slash at the end.
    pub(crate) url: String,
}

impl ServerApi {
    /// Of the server at this address, without a request yet.
    #[must_use]
    pub fn new(url: &str, login: Option<Login>) -> Self {
        Self { client: HttpClient::new(login), url: url.trim_end_matches('/').to_owned() }
    }

    /// The address of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Reads the document of this name, `disks` for example.
    ///
    /// # Errors
    /// As [`HttpClient::json`].
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<T> {
        self.client.json(&format!("{}/api/v1/{name}", self.url))
    }

    /// Orders work, `streams/5/stop` for example, which the server begins.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the server's refusal.
    pub fn order(&self, work: &str) -> anyhow::Result<()> {
        expect(self.client.ask("POST", &format!("{}/api/v1/{work}", self.url), &[])?, &[202]).map(drop)
    }
}
