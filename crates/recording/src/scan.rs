//! Parts for the scans of another engine: what its planner must know of a part, and the part's bytes, verified.
//!
//! [`ScanPart::open`] reads and verifies the footer and keeps no descriptor, so that a query may plan thousands of parts.
//! [`ScanPart::bytes`] opens the file again when the scan reaches it. Bytes are compared with the checksum of their
//! column chunk before they are given away, as [`crate::Recording::read`] does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::file::metadata::ParquetMetaData;

use crate::error::Result;
use crate::part::{Chunks, Part};
use crate::reader::schema_of;
use crate::tables::{ColumnDef, TableDef};

/// A part of a table whose footer has been read and verified.
#[derive(Debug, Clone)]
pub struct ScanPart {
    path: PathBuf,
    table: &'static TableDef,
    len: u64,
    metadata: Arc<ParquetMetaData>,
    checksums: Option<Vec<u32>>,
    schema: SchemaRef,
}

impl ScanPart {
    /// Reads the footer of the part of `table` at `path`.
    ///
    /// # Errors
    /// [`crate::Error::BadPart`] if the file is missing, cut off or its footer is damaged.
    pub fn open(path: &Path, table: &'static TableDef) -> Result<Self> {
        let part = Part::open(path)?;
        let columns: Vec<&'static ColumnDef> = table.columns.iter().collect();
        let schema = part.schema(&columns)?;
        let (len, metadata, checksums) = part.into_footer();
        Ok(Self { path: path.to_owned(), table, len, metadata, checksums, schema })
    }

    /// Where the part is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the file when its footer was read.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// The footer.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// The types in which the part's columns are decoded: those of the registry where the file can yield them, else those
    /// of the file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of rows, as the footer says.
    pub fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or_default()).sum()
    }

    /// Opens the file for its bytes.
    ///
    /// # Errors
    /// [`crate::Error::BadPart`] if the file is missing or has another size than when its footer was read.
    pub fn bytes(&self) -> Result<PartBytes> {
        let part = Part::again(&self.path, self.len, self.metadata.clone(), self.checksums.clone())?;
        Ok(PartBytes { chunks: Chunks::of(&part)?, path: self.path.clone() })
    }

    /// Looks for damage in the whole part: by checksums, and in a part of another program by decoding it.
    ///
    /// # Errors
    /// [`crate::Error::BadPart`] names file and offset.
    pub fn examine(&self) -> Result<()> {
        let part = Part::open(&self.path)?;
        if part.is_verified() {
            return part.verify();
        }
        let columns: Vec<&'static ColumnDef> = self.table.columns.iter().collect();
        part.read(&columns, &schema_of(&columns))?.try_for_each(|batch| batch.map(drop))
    }
}

/// The bytes of one part.
#[derive(Debug)]
pub struct PartBytes {
    path: PathBuf,
    chunks: Chunks,
}

impl PartBytes {
    /// The bytes from `start` up to, and without, `end`.
    ///
    /// A range within a column chunk that has a checksum makes the whole chunk be read, once.
    ///
    /// # Errors
    /// [`crate::Error::BadPart`] if they cannot be read or do not have their checksum.
    pub fn read(&self, start: u64, end: u64) -> Result<Bytes> {
        self.chunks.range(start, end).map_err(|damage| damage.of(&self.path))
    }
}
