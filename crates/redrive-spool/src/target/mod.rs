//! The object store that batches go to: S3, Google Cloud, Azure, or a folder.
//!
//! A put is whole or not at all, and a repetition overwrites the same object. What is wrong with the store is
//! never held against a batch: only what the store says of this one object is.

mod cleaned;
mod prefix;
mod store;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use redrive_core::classify;
use redrive_core::failure::{Class, Code, Failure};

use cleaned::Names;
use prefix::Prefix;
pub use store::{Patience, StoreOptions, StoreSetting};

/// The object that asks whether a store takes anything. Readers of data leave out what begins with a dot.
const PROBE: &str = ".redrive-probe";

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The address is not one.
    #[error("`{address}` is no address of a store: expected s3://, gs://, az:// or file:///")]
    Address {
        /// What was given.
        address: String,
    },
    /// A prefix cannot be part of the name of an object.
    #[error("`{prefix}` cannot be a prefix: {reason}")]
    Prefix {
        /// What was given.
        prefix: String,
        /// What is wrong.
        reason: String,
    },
    /// The store's settings, such as its credentials, cannot be used.
    #[error("the store {address} cannot be used: {reason}")]
    Store {
        /// Which.
        address: String,
        /// What is wrong.
        reason: String,
    },
}

/// Whether this can be a prefix of objects.
///
/// # Errors
/// Why not.
pub fn check_prefix(prefix: &str) -> Result<(), TargetError> {
    Prefix::new("", prefix).map(drop)
}

/// Where batches go, and under which prefixes.
#[derive(Debug, Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    raw: Prefix,
    damaged: Prefix,
    names: Names,
}

impl Target {
    /// The store at this address. Everything else comes from the environment, as each store has it.
    ///
    /// # Errors
    /// As [`Self::open_with`].
    pub fn open(address: &str, raw: &str, damaged: &str, patience: &Patience) -> Result<Self, TargetError> {
        Self::open_with(&StoreOptions::at(address), raw, damaged, patience)
    }

    /// The store with these settings. What is not set comes from the environment.
    ///
    /// A prefix may have partitions by the time of a batch: `RAW/dt={date}/hour={hour}`.
    ///
    /// # Errors
    /// When the address or the settings of the store cannot be used; nothing is sent yet.
    pub fn open_with(
        options: &StoreOptions,
        raw: &str,
        damaged: &str,
        patience: &Patience,
    ) -> Result<Self, TargetError> {
        let opened = store::open(options, patience)?;
        let target = Self::over(opened.store, &opened.root, raw, damaged)?;
        Ok(Self { names: opened.names, ..target })
    }

    /// A store of the caller's.
    ///
    /// # Errors
    /// When a prefix cannot be part of the name of an object.
    pub fn over(
        store: Arc<dyn ObjectStore>,
        root: &str,
        raw: &str,
        damaged: &str,
    ) -> Result<Self, TargetError> {
        let (raw, damaged) = (Prefix::new(root, raw)?, Prefix::new(root, damaged)?);
        Ok(Self { store, raw, damaged, names: Names::default() })
    }

    /// Puts a good batch. A repetition overwrites the same object.
    ///
    /// # Errors
    /// What the store said, and what it means.
    pub async fn put_raw(&self, name: &str, data: Bytes) -> Result<(), Failure> {
        self.put(&self.raw.object(name), data).await
    }

    /// When the store took the batch of this name; nothing if it does not have it.
    ///
    /// # Errors
    /// What the store said, and what it means.
    pub async fn stored_at(&self, name: &str) -> Result<Option<Timestamp>, Failure> {
        match self.store.head(&self.raw.object(name)).await {
            Ok(object) => Ok(Timestamp::from_second(object.last_modified.timestamp()).ok()),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// Sets a damaged file aside, byte for byte.
    ///
    /// # Errors
    /// What the store said, and what it means.
    pub async fn put_damaged(&self, name: &str, data: Bytes) -> Result<(), Failure> {
        self.put(&self.damaged.object(name), data).await
    }

    /// Asks whether the store takes anything: writes an object where good batches go, and deletes it again, if
    /// that is allowed.
    ///
    /// # Errors
    /// What the store said, and what it means.
    pub async fn probe(&self) -> Result<(), Failure> {
        let path = self.raw.at(Some(Timestamp::now())).join(PROBE);
        self.put(&path, Bytes::new()).await?;
        if let Err(error) = self.store.delete(&path).await {
            tracing::debug!(object = PROBE, error = self.names.clean(&error), "a probe is left behind");
        }
        Ok(())
    }

    /// Writes an object under each prefix, reads it and deletes it: what a person asks who has just configured the
    /// store.
    ///
    /// # Errors
    /// What the store said to the first step that failed.
    pub async fn check(&self) -> Result<(), Failure> {
        for prefix in [&self.raw, &self.damaged] {
            self.check_at(&prefix.at(Some(Timestamp::now()))).await?;
        }
        Ok(())
    }

    async fn check_at(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.clone().join(PROBE);
        let wrote = Bytes::from(format!("redrive check, {}", Timestamp::now()));
        let failed = |step: &str, error: &object_store::Error| {
            let failure = self.failure(error);
            let message = format!("cannot {step} {path}: {}", failure.message);
            Failure { message, ..failure }
        };
        self.store.put(&path, wrote.clone().into()).await.map_err(|error| failed("write", &error))?;
        let got = self.store.get(&path).await.map_err(|error| failed("read", &error))?;
        let read = got.bytes().await.map_err(|error| failed("read", &error))?;
        self.store.delete(&path).await.map_err(|error| failed("delete", &error))?;
        if read == wrote {
            return Ok(());
        }
        let message = format!("{path} was read otherwise than it was written: is there a cache in between?");
        Err(Failure::transient("ObjectStore", message))
    }

    async fn put(&self, path: &Path, data: Bytes) -> Result<(), Failure> {
        self.store.put(path, data.into()).await.map(drop).map_err(|error| self.failure(&error))
    }

    /// What a store's error means for the batch. Refused credentials are mended by a person while the batch
    /// waits: they are never the batch's fault.
    fn failure(&self, error: &object_store::Error) -> Failure {
        use object_store::Error as E;
        let message = self.names.clean(error);
        if let Some(code) = cleaned::element(&error.to_string(), "Code") {
            let class = classify::s3::classify(code, None);
            let failure = Failure::new(class, "ObjectStore", &message);
            return failure.with_code(Code::S3(code.to_owned()));
        }
        match error {
            E::PermissionDenied { .. } => Failure::transient("PermissionDenied", message),
            E::Unauthenticated { .. } => Failure::transient("Unauthenticated", message),
            E::NotFound { .. } => Failure::transient("NotFound", message),
            E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => {
                Failure::new(Class::Permanent, "ObjectStore", message)
            }
            _ => Failure::transient("ObjectStore", message),
        }
    }
}
