//! Sink: the store, which keeps an upload when it is finished and nothing of it otherwise.

use std::convert::Infallible;

use bytes::Bytes;

use super::{Sink, Step};
use crate::contents::{Published, UploadSink};
use crate::problem;

struct Stored(Option<Box<dyn UploadSink>>);

pub(crate) fn store(upload: Box<dyn UploadSink>) -> impl Sink<Done = Published> {
    Stored(Some(upload))
}

impl Stored {
    fn upload(&mut self) -> &mut dyn UploadSink {
        self.0.as_deref_mut().expect("nothing comes after the end")
    }
}

impl Sink for Stored {
    type Done = Published;

    fn take(&mut self, piece: Bytes) -> Step<'_, ()> {
        Box::pin(async move { self.upload().append(&piece).await.map_err(|error| problem::of_store(&error)) })
    }

    fn failed(&mut self) -> Step<'_, Infallible> {
        Box::pin(async { self.upload().failed().await.map_err(|error| problem::of_store(&error)) })
    }

    fn finish(&mut self) -> Step<'_, Published> {
        let upload = self.0.take().expect("finished once");
        Box::pin(async { upload.finish().await.map_err(|error| problem::of_store(&error)) })
    }
}
