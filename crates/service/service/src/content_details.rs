//! Details of a content: its container, its formats and its disks.
//!
//! Not here: size and rate (`listing`).

use api::ContentDetails;
use units::DiskId;

use crate::access::{Permit, ToRead};
use crate::contents::{StoreError, Want};
use crate::media_service::MediaService;

/// The details of the permit's content.
///
/// # Errors
/// As the store reports.
pub async fn details(service: &MediaService, permit: &Permit<ToRead>) -> Result<ContentDetails, StoreError> {
    let opened = service.contents.open(permit.path(), Want::FileAndRate).await?;
    let (disks, layout) = (service.admin.disks(), &opened.content.layout);
    let named = |id: &DiskId| Some(disks.iter().find(|disk| disk.id == *id)?.device.name.clone());
    Ok(ContentDetails {
        codecs: opened
            .media
            .iter()
            .flat_map(|media| media.codecs.iter())
            .map(|codec| codec.name().to_owned())
            .collect(),
        container: opened.media.map(|media| media.container.name().to_owned()),
        disks: layout.disks().iter().filter_map(named).collect(),
        copies: u64::try_from(layout.copies()).unwrap_or(u64::MAX),
    })
}
