//! Where images were put and verified.

use std::collections::BTreeSet;

use ident::Digest;
use record::{ImageKind, PlacedImage};
use rusqlite::{Row, Transaction, TransactionBehavior, params};

use crate::{Ledger, LedgerError};

const COLUMNS: &str = "kind, key, repository, tag, digest";

impl Ledger {
    /// Appends where images were seen, all or none. What is known already, word for word, is not appended again.
    ///
    /// `plan` is the digest of the plan that was carried out.
    pub fn record_placements(&mut self, plan: Digest, placed: &[PlacedImage]) -> Result<(), LedgerError> {
        let known: BTreeSet<PlacedImage> = self.placements()?.into_iter().collect();
        let path = &self.path;
        let failed = |source| LedgerError::of_sqlite(path, source);
        let transaction =
            Transaction::new(&mut self.connection, TransactionBehavior::Immediate).map_err(failed)?;
        {
            let mut insert = transaction
                .prepare_cached(&format!(
                    "INSERT INTO placements ({COLUMNS}, plan) VALUES (?, ?, ?, ?, ?, ?)"
                ))
                .map_err(failed)?;
            for image in placed.iter().filter(|image| !known.contains(image)) {
                let PlacedImage { kind, key, repository, tag, digest } = image;
                insert
                    .execute(params![kind.name(), key, repository, tag, digest, plan.hex()])
                    .map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// The last place of every image, in order of kind and key.
    pub fn placements(&self) -> Result<Vec<PlacedImage>, LedgerError> {
        let failed = |source| LedgerError::of_sqlite(&self.path, source);
        let mut select = self
            .connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM placements
                 WHERE id IN (SELECT max(id) FROM placements GROUP BY kind, key) ORDER BY kind, key"
            ))
            .map_err(failed)?;
        let mut rows = select.query([]).map_err(failed)?;
        let mut placed = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            placed.push(read(row).map_err(failed)?);
        }
        Ok(placed)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<PlacedImage> {
    let kind: String = row.get(0)?;
    let kind = ImageKind::from_name(&kind).ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(PlacedImage { kind, key: row.get(1)?, repository: row.get(2)?, tag: row.get(3)?, digest: row.get(4)? })
}
