//! Changes of accounts, groups, tokens, logins and links by clients of front ends, and lists of them.
//!
//! Promise: each call takes a permit; an account sees and changes its own credentials only, an administrator of the server those of all;
//! an account gives others no right by a link that it does not have itself. Not here: judging (`access`), keeping (the crate `accounts`).

use std::net::IpAddr;
use std::time::Duration;

use api::{
    AccountEntry, BudgetAmounts, FirstAccount, GrantEntry, GroupEntry, LinkEntry, LoginStatus, NewAccount, NewLink,
    NewPassword, NewToken, TokenEntry, TokenText,
};
use tokio::time::timeout;
use units::BitRate;

use crate::MediaService;
use crate::access::{OwnPermit, Permit, Principal, RightKind, ToAdminister, ToRead, ToShare, ToWrite};
use crate::account_changes::{AccountChange, ChangeError, Changed, LinkWish, ListPart, ProvenIdentity};
use crate::accounts::{FolderRights, Holder, NetworkError, Right, Rights, UnknownRight, parse_network};
use crate::budgets::{BudgetKey, BudgetLimits};
use crate::contents::{ContentPath, NameKind, PathError, StoreError};
use crate::logins::{LoginError, PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN, hash_password};

/// A login of a browser that is not used for this time ends, s.
pub const LOGIN_IDLE: u64 = 7 * 24 * 3600;
/// A login of a browser ends after this time in any case, s.
pub const LOGIN_LIFE: u32 = 30 * 24 * 3600;
/// Longest look for what a command shares.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest name of an account or group, bytes.
const NAME_BYTES_MAX: usize = 64;
/// Longest label of a token or login, bytes.
const LABEL_BYTES_MAX: usize = 200;

/// The reason why a wish is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// A name that no account may have.
    #[error("a name has 1 to 64 bytes, no colon and no control characters")]
    Name,
    /// A password that is none.
    #[error("a password has 8 to 1024 bytes")]
    Password,
    /// A label that is too long.
    #[error("a label has at most 200 bytes and no control characters")]
    Label,
    /// No path of a content.
    #[error("`{0}` is no path below /media/: {1}")]
    Path(String, #[source] PathError),
    /// No right.
    #[error(transparent)]
    Right(#[from] UnknownRight),
    /// No right is named.
    #[error("`rights` names one right at least: read, write, delete, share, admin")]
    NoRights,
    /// No network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// It would never be valid.
    #[error("`expires_seconds`, `rate_bps` and `uses` are at least 1")]
    Zero,
    /// Bytes of an upload, for a link that reads.
    #[error("`stored_max` is for links that upload")]
    StoredByReads,
    /// A rate, for a link that uploads.
    #[error("`rate_bps` is for links that read: a budget of the link limits its uploads")]
    RateOfUploads,
    /// A link for reads to a path that nothing has.
    #[error("there is no `{0}`: a link gives others what is there; one for uploads may name a folder that they make")]
    NothingToShare(String),
    /// A link for uploads to a path that a content has.
    #[error("`{0}` is a content, and uploads by a link overwrite nothing: share its folder, or another path")]
    UploadsOverContent(String),
    /// A limit that admits nothing.
    #[error("a limit is at least 1; leave out those that are none")]
    EmptyLimit,
    /// No holder whose budget can be set.
    #[error("`{0}` is no budget's holder here: `user:NAME`, `group:NAME`, `token:ID` or `link:ID`")]
    Holder(String),
    /// An administrator without an account, and no account is named.
    #[error("name the user that the token is for: `user`")]
    NoUser,
    /// The code of the first account.
    #[error(
        "this code is wrong, was used, or is of an earlier start: the server prints another one when it starts without users"
    )]
    Code,
    /// The present password is wrong, or cannot be verified now.
    #[error("`present`, the present password, is needed: {0}")]
    Present(#[from] LoginError),
    /// It was not made.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Checks the name of an account or group.
///
/// # Errors
/// It is none.
pub fn checked_name(name: &str) -> Result<&str, WishError> {
    let is_plain =
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(|c| !c.is_control() && c != ':');
    if is_plain { Ok(name) } else { Err(WishError::Name) }
}

/// Rights over a folder, from a document.
///
/// # Errors
/// A word is no right, or the folder no path.
pub fn folder_rights(folder: &str, rights: &[String]) -> Result<FolderRights, WishError> {
    if rights.is_empty() {
        return Err(WishError::NoRights);
    }
    Ok(FolderRights { folder: content_path(folder)?, rights: rights_of(rights)? })
}

fn rights_of(words: &[String]) -> Result<Rights, UnknownRight> {
    words.iter().try_fold(Rights::default(), |rights, word| Ok(rights.with(word.parse()?)))
}

fn content_path(text: &str) -> Result<ContentPath, WishError> {
    ContentPath::parse(text).map_err(|error| WishError::Path(text.to_owned(), error))
}

fn checked_label(label: &str) -> Result<&str, WishError> {
    let is_plain = label.len() <= LABEL_BYTES_MAX && !label.chars().any(char::is_control);
    if is_plain { Ok(label) } else { Err(WishError::Label) }
}

/// Accounts, by name.
///
/// # Errors
/// They cannot be read now.
pub async fn users(
    service: &MediaService,
    part: ListPart<String>,
    _permit: &Permit<ToAdminister>,
) -> Result<Vec<AccountEntry>, ChangeError> {
    service.account_store.accounts(part).await
}

/// Groups, by name.
///
/// # Errors
/// They cannot be read now.
pub async fn groups(
    service: &MediaService,
    part: ListPart<String>,
    _permit: &Permit<ToAdminister>,
) -> Result<Vec<GroupEntry>, ChangeError> {
    service.account_store.groups(part).await
}

/// Tokens and logins that the permit's account may see, by number.
///
/// # Errors
/// They cannot be read now.
pub async fn tokens(
    service: &MediaService,
    part: ListPart<i64>,
    permit: &OwnPermit,
) -> Result<Vec<TokenEntry>, ChangeError> {
    service.account_store.tokens(permit.only().map(str::to_owned), part).await
}

/// Links that the permit's account may see, by number.
///
/// # Errors
/// They cannot be read now.
pub async fn links(
    service: &MediaService,
    part: ListPart<i64>,
    permit: &OwnPermit,
) -> Result<Vec<LinkEntry>, ChangeError> {
    service.account_store.links(permit.only().map(str::to_owned), part).await
}

/// Makes an account.
///
/// # Errors
/// It is none, or is not made.
pub async fn add_user(
    service: &MediaService,
    wish: NewAccount,
    _permit: &Permit<ToAdminister>,
) -> Result<(), WishError> {
    let (name, rights) = (checked_name(&wish.name)?.to_owned(), rights_of(&wish.rights)?);
    let password_hash = hashed(wish.password).await?;
    change(service, AccountChange::AddAccount { name, password_hash, rights }).await
}

/// Makes the first account, which administers the server, if `code` is that of [`crate::credentials::CredentialProofs::offer_first_account`].
///
/// # Errors
/// The code is wrong, there is an account already, or it is not made.
pub async fn add_first_user(service: &MediaService, wish: FirstAccount) -> Result<(), WishError> {
    if !service.credentials.is_first_code(&wish.code) {
        return Err(WishError::Code);
    }
    let name = checked_name(&wish.name)?.to_owned();
    let password_hash = hashed(wish.password).await?;
    change(service, AccountChange::AddFirstAccount { name, password_hash }).await
}

/// Sets another password of the account `name`, and ends the logins of its browsers. An account that does it itself, at `from`, proves by
/// its present password that its browser was not left alone.
///
/// # Errors
/// The permit is for another account, the present password is wrong, or it is not set.
pub async fn set_password(
    service: &MediaService,
    (name, wish): (String, NewPassword),
    permit: &OwnPermit,
    from: IpAddr,
) -> Result<(), WishError> {
    if permit.only().is_some_and(|only| only != name) {
        return Err(ChangeError::NoAccount(name).into());
    }
    if permit.user() == Some(&*name) {
        service.credentials.by_password(&name, wish.present.as_deref().unwrap_or_default(), from).await?;
    }
    let password_hash = hashed(wish.password).await?;
    change(service, AccountChange::SetPassword { name, password_hash }).await
}

/// Makes a change of an account or group whose names and rights are checked.
///
/// # Errors
/// It is not made.
pub async fn change_account(
    service: &MediaService,
    checked: AccountChange,
    _permit: &Permit<ToAdminister>,
) -> Result<(), WishError> {
    change(service, checked).await
}

/// Sets the limits of an account, a group, a token or a link, in place of those that it has; without any, its budget goes.
///
/// # Errors
/// There is no such holder, or they are not set.
pub async fn set_budget(
    service: &MediaService,
    holder: &str,
    limits: BudgetAmounts,
    _permit: &Permit<ToAdminister>,
) -> Result<(), WishError> {
    let of = match holder.parse() {
        Ok(BudgetKey::Group(name)) => BudgetKey::Group(checked_name(&name)?.into()),
        Ok(of @ (BudgetKey::Account(_) | BudgetKey::Token(_) | BudgetKey::Link(_))) => of,
        Ok(BudgetKey::Address(_) | BudgetKey::Proxy(_)) | Err(_) => return Err(WishError::Holder(holder.to_owned())),
    };
    let BudgetAmounts { streams, reserved_bps, idle_bps, download_bps, upload_bps, requests, stored_bytes } = limits;
    if [streams, reserved_bps, idle_bps, download_bps, upload_bps, requests, stored_bytes].contains(&Some(0)) {
        return Err(WishError::EmptyLimit);
    }
    let limits = BudgetLimits {
        streams,
        reserved: reserved_bps.map(BitRate),
        idle: idle_bps.map(BitRate),
        download: download_bps.map(BitRate),
        upload: upload_bps.map(BitRate),
        requests,
        stored: stored_bytes,
    };
    change(service, AccountChange::SetBudget { of, limits }).await
}

/// Makes a token.
///
/// # Errors
/// It is none, or is not made.
pub async fn add_token(service: &MediaService, wish: NewToken, permit: &OwnPermit) -> Result<TokenText, WishError> {
    let account = wish.user.as_deref().or(permit.user()).ok_or(WishError::NoUser)?.to_owned();
    if permit.only().is_some_and(|only| only != account) {
        return Err(ChangeError::NoAccount(account).into());
    }
    let label = checked_label(&wish.label)?.to_owned();
    let within = folder_rights(&wish.folder, &wish.rights)?;
    let expires = wish.expires_seconds.map(|seconds| ends_after(service, seconds)).transpose()?;
    let (id, token) = made(service, AccountChange::AddToken { account, label, within, expires }).await?;
    Ok(TokenText { id, token })
}

/// Removes a token or login that the permit's account may see.
///
/// # Errors
/// There is none, or it is not removed.
pub async fn revoke_token(service: &MediaService, id: i64, permit: &OwnPermit) -> Result<(), WishError> {
    change(service, AccountChange::RevokeToken { id, of: permit.only().map(str::to_owned) }).await
}

/// Ends a link that the permit's account may see.
///
/// # Errors
/// There is none, or it does not end.
pub async fn revoke_link(service: &MediaService, id: i64, permit: &OwnPermit) -> Result<(), WishError> {
    change(service, AccountChange::RevokeLink { id, of: permit.only().map(str::to_owned) }).await
}

/// The right that a link gives, which its maker has itself.
pub enum SharedRight {
    /// Reads, and listings.
    Read(Permit<ToRead>),
    /// Uploads.
    Upload(Permit<ToWrite>),
}

/// Makes a link over the permit's path.
///
/// # Errors
/// It is none, or is not made.
pub async fn add_link(
    service: &MediaService,
    wish: &NewLink,
    (permit, shared): (&Permit<ToShare>, &SharedRight),
) -> Result<(i64, String), WishError> {
    let (right, path) = match shared {
        SharedRight::Read(permit) => (Right::Read, permit.path()),
        SharedRight::Upload(permit) => (Right::Write, permit.path()),
    };
    assert_eq!(path, permit.path(), "both permits are for what is shared");
    if wish.rate_bps == Some(0) || wish.uses == Some(0) {
        return Err(WishError::Zero);
    }
    if wish.stored_max.is_some() && right == Right::Read {
        return Err(WishError::StoredByReads);
    }
    if wish.rate_bps.is_some() && right == Right::Write {
        return Err(WishError::RateOfUploads);
    }
    check_shared(service, right, permit).await?;
    let link = LinkWish {
        given: FolderRights { folder: path.clone(), rights: Rights::of(&[right]) },
        expires: ends_after(service, wish.expires_seconds)?,
        rate: wish.rate_bps.map(BitRate),
        uses: wish.uses,
        from: wish.from.iter().map(|network| parse_network(network)).collect::<Result<_, _>>()?,
        stored: wish.stored_max,
        by: permit.user().map(str::to_owned),
    };
    made(service, AccountChange::AddLink(link)).await
}

/// Whether there is something to share at the permit's path. Uploads by a link make folders on their way, and overwrite nothing.
async fn check_shared<R: RightKind>(service: &MediaService, right: Right, permit: &Permit<R>) -> Result<(), WishError> {
    match (right, service.lookup(permit).await) {
        (Right::Read, Err(StoreError::NotFound)) => Err(WishError::NothingToShare(permit.path().joined())),
        (Right::Write, Ok(there)) if there.kind == NameKind::File => {
            Err(WishError::UploadsOverContent(permit.path().joined()))
        }
        _ => Ok(()),
    }
}

/// The fault of a link with these rights, which a command is about to make; none also if that is not found out in time. Waits for the store:
/// not for a thread of the runtime.
#[must_use]
pub fn link_fault(service: &MediaService, given: FolderRights) -> Option<WishError> {
    let right = if given.rights.has(Right::Write) { Right::Write } else { Right::Read };
    let permit = Permit::<ToShare>::of_configuration(given.folder);
    let look = async { timeout(LOOK_TIME_MAX, check_shared(service, right, &permit)).await };
    service.runtime.block_on(look).ok()?.err()
}

/// Begins a login of a browser for an account that has proven itself by its password. Gives its text.
///
/// # Errors
/// It is not begun.
pub async fn begin_login(service: &MediaService, account: &str, browser: &str) -> Result<String, WishError> {
    let (account, label) = (account.to_owned(), browser_label(browser));
    let expires = ends_after(service, LOGIN_LIFE)?;
    let login = AccountChange::AddLogin { account, label, expires, idle: LOGIN_IDLE };
    made(service, login).await.map(|(_, text)| text)
}

/// Begins a login of a browser for a user that a provider of identities has proven. Gives its text. Groups whose names none may have here are
/// left out.
///
/// # Errors
/// It is not begun.
pub async fn begin_proven_login(
    service: &MediaService,
    identity: ProvenIdentity,
    browser: &str,
) -> Result<String, WishError> {
    checked_name(&identity.name)?;
    let fit = |groups: Vec<String>| groups.into_iter().filter(|group| checked_name(group).is_ok()).collect();
    let identity = ProvenIdentity { groups: identity.groups.map(fit), ..identity };
    let (label, expires) = (browser_label(browser), ends_after(service, LOGIN_LIFE)?);
    let login = AccountChange::AddProvenLogin { identity, label, expires, idle: LOGIN_IDLE };
    made(service, login).await.map(|(_, text)| text)
}

/// A browser's name for lists.
fn browser_label(browser: &str) -> String {
    browser.chars().filter(|c| !c.is_control()).take(LABEL_BYTES_MAX / 4).collect()
}

/// Ends the login of this number.
///
/// # Errors
/// There is none, or it does not end.
pub async fn end_login(service: &MediaService, id: i64) -> Result<(), ChangeError> {
    service.account_store.change(AccountChange::RevokeToken { id, of: None }).await.map(|_| ())
}

/// The account of a request, and its rights.
#[must_use]
pub fn login_status(
    service: &MediaService,
    principal: &Principal,
    takes_passwords: bool,
    provider: Option<&str>,
) -> LoginStatus {
    let (accounts, facts) = (&service.accounts, service.accounts.facts());
    let account = match principal {
        Principal::Account(account) => Some(account),
        _ => None,
    };
    let held = account.and_then(|account| Some((account, facts.accounts.get(account.name())?)));
    let held = held.map(|(account, known)| known.rights.iter().filter_map(|given| account.bounded(given)));
    let words = |given: FolderRights| GrantEntry {
        folder: given.folder.to_string(),
        rights: given.rights.to_string().split(',').map(str::to_owned).collect(),
    };
    LoginStatus {
        user: account.map(|account| account.name().to_owned()),
        administers: service.permit_server::<ToAdminister>(principal).is_ok(),
        open: accounts.may(Holder::Anybody, Right::Read, &ContentPath::root()),
        takes_passwords,
        provider: provider.map(str::to_owned),
        rights: held.into_iter().flatten().map(words).collect(),
    }
}

async fn change(service: &MediaService, change: AccountChange) -> Result<(), WishError> {
    service.account_store.change(change).await?;
    Ok(())
}

async fn made(service: &MediaService, change: AccountChange) -> Result<(i64, String), WishError> {
    match service.account_store.change(change).await? {
        Changed::New { id, text } => Ok((id, text)),
        Changed::Done => unreachable!("a new credential has a text"),
    }
}

/// The end of a span from now, seconds since 1970.
fn ends_after(service: &MediaService, seconds: u32) -> Result<u64, WishError> {
    if seconds == 0 { Err(WishError::Zero) } else { Ok(service.accounts.now().saturating_add(u64::from(seconds))) }
}

/// Hashes a password on a thread of its own.
///
/// # Errors
/// It is none, or the server ends.
async fn hashed(password: String) -> Result<String, WishError> {
    if !(PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        return Err(WishError::Password);
    }
    let hashed = tokio::task::spawn_blocking(move || hash_password(&password)).await;
    hashed.map_err(|_| ChangeError::Unavailable("the server is about to stop".to_owned()).into())
}
