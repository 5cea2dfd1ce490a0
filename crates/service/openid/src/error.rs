//! Reasons of failed logins.

/// Reason of a login that comes to nothing. The text is fit for its user and for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenIdError {
    /// The provider is not reached, or its answer is none.
    #[error("the provider of logins does not answer: {0}")]
    Unreached(String),
    /// One of its documents is not as it must be.
    #[error("{0} of the provider cannot be used: {1}")]
    Document(&'static str, String),
    /// The provider's own refusal.
    #[error("the provider refuses the login: {0}")]
    Refused(String),
    /// The answer is not to the login that this browser began last.
    #[error("this is no answer to a login that this browser began within the last 10 minutes: begin it again")]
    OtherLogin,
    /// The ID token proves nothing.
    #[error("the provider's ID token is refused: {0}")]
    Token(String),
    /// A claim that an account needs.
    #[error("the provider says nothing fit in the claim `{0}`: {1}")]
    Claim(String, &'static str),
}
