//! Rights as types, so that a permit for one is not taken for another.
//!
//! Not here: permits (`access`), the rights of accounts (`accounts`).

use std::fmt;

use crate::accounts::Right;

/// Uses of a right, as texts name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RightUses(pub(crate) Right);

impl fmt::Display for RightUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Right::Read => "reads",
            Right::Write | Right::Delete => "writes",
            Right::Share => "shares",
            Right::Administer => "administrative calls",
        })
    }
}

/// A right as a type, so that a permit for another is not taken.
pub trait RightKind {
    /// The right.
    const RIGHT: Right;
}

/// A right over one path.
pub trait PathRight: RightKind {}

/// A right over the whole server: over the root folder.
pub trait ServerRight: RightKind {}

/// Read or list.
#[derive(Debug, Clone, Copy)]
pub struct ToRead;
/// Store.
#[derive(Debug, Clone, Copy)]
pub struct ToWrite;
/// Remove.
#[derive(Debug, Clone, Copy)]
pub struct ToDelete;
/// Give others a link.
#[derive(Debug, Clone, Copy)]
pub struct ToShare;
/// See figures, streams and events: for those that may read everything.
#[derive(Debug, Clone, Copy)]
pub struct ToObserve;
/// See budgets: each account its own.
#[derive(Debug, Clone, Copy)]
pub struct ToSeeBudgets;
/// Steer streams, jobs and volumes.
#[derive(Debug, Clone, Copy)]
pub struct ToAdminister;

macro_rules! rights {
    ($($name:ident: $right:ident $(over $over:ident)?;)*) => {
        $(
            impl RightKind for $name {
                const RIGHT: Right = Right::$right;
            }
            $(impl $over for $name {})?
        )*
    };
}

rights! {
    ToRead: Read over PathRight;
    ToWrite: Write over PathRight;
    ToDelete: Delete over PathRight;
    ToShare: Share over PathRight;
    ToObserve: Read over ServerRight;
    ToSeeBudgets: Read;
    ToAdminister: Administer over ServerRight;
}
