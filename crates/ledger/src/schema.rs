//! The database's layout, its versions, and how a connection is set up.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::LedgerError;

/// How long one process waits for another.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Marks the file as a ledger of this program: the letters SEAT.
const APPLICATION_ID: i64 = 0x5345_4154;

/// Scripts that bring a file to each version of the layout; an old file runs those that it lacks.
const MIGRATIONS: [(i64, &str); 3] = [(1, VERSION_1), (2, VERSION_2), (3, VERSION_3)];

/// The version of the last script.
const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Observations, an index for what verdicts ask, and the rule that nothing is ever changed.
///
/// The insert trigger closes the detour that `INSERT OR REPLACE` would be.
const VERSION_1: &str = "
CREATE TABLE observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('nop', 'oracle')),
    tree_digest TEXT NOT NULL,
    verifier_digest TEXT NOT NULL,
    image_digest TEXT NOT NULL,
    verifier_sec INTEGER NOT NULL,
    memory_mb INTEGER,
    millicpus INTEGER,
    engine TEXT NOT NULL,
    outcome TEXT NOT NULL,
    tests TEXT NOT NULL,
    wall_ms INTEGER NOT NULL,
    trial TEXT NOT NULL,
    ended_at TEXT NOT NULL
) STRICT;
CREATE INDEX observations_by_identity ON observations (task_id, tree_digest, verifier_digest, kind);
CREATE TRIGGER observations_are_never_changed BEFORE UPDATE ON observations
BEGIN SELECT RAISE(ABORT, 'observations are never changed'); END;
CREATE TRIGGER observations_are_never_deleted BEFORE DELETE ON observations
BEGIN SELECT RAISE(ABORT, 'observations are never deleted'); END;
CREATE TRIGGER observations_are_never_replaced BEFORE INSERT ON observations
WHEN EXISTS (SELECT 1 FROM observations WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'observations are never replaced'); END;
";

/// Trials of cheats, and what their outcome also speaks for.
///
/// A check of a column cannot be changed, so the table is copied whole, numbers included, and the same rules are laid over the
/// copy: nothing that was observed is lost, and at no time can anybody else see a table without them.
const VERSION_2: &str = "
CREATE TABLE observations_2 (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('nop', 'oracle') OR kind GLOB 'cheat:[a-z]*'),
    tree_digest TEXT NOT NULL,
    verifier_digest TEXT NOT NULL,
    image_digest TEXT NOT NULL,
    verifier_sec INTEGER NOT NULL,
    memory_mb INTEGER,
    millicpus INTEGER,
    engine TEXT NOT NULL,
    outcome TEXT NOT NULL,
    tests TEXT NOT NULL,
    wall_ms INTEGER NOT NULL,
    trial TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    cheat_group TEXT
) STRICT;
INSERT INTO observations_2
    SELECT id, task_id, kind, tree_digest, verifier_digest, image_digest, verifier_sec, memory_mb, millicpus,
           engine, outcome, tests, wall_ms, trial, ended_at, NULL
    FROM observations ORDER BY id;
DROP TABLE observations;
ALTER TABLE observations_2 RENAME TO observations;
CREATE INDEX observations_by_identity ON observations (task_id, tree_digest, verifier_digest, kind);
CREATE INDEX observations_by_cheat_group ON observations (cheat_group) WHERE cheat_group IS NOT NULL;
CREATE TRIGGER observations_are_never_changed BEFORE UPDATE ON observations
BEGIN SELECT RAISE(ABORT, 'observations are never changed'); END;
CREATE TRIGGER observations_are_never_deleted BEFORE DELETE ON observations
BEGIN SELECT RAISE(ABORT, 'observations are never deleted'); END;
CREATE TRIGGER observations_are_never_replaced BEFORE INSERT ON observations
WHEN EXISTS (SELECT 1 FROM observations WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'observations are never replaced'); END;
";

/// Where images were put and verified, under the same rule.
const VERSION_3: &str = "
CREATE TABLE placements (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('baseanchor', 'task')),
    key TEXT NOT NULL,
    repository TEXT NOT NULL,
    tag TEXT NOT NULL,
    digest TEXT NOT NULL,
    plan TEXT NOT NULL
) STRICT;
CREATE INDEX placements_by_image ON placements (kind, key);
CREATE TRIGGER placements_are_never_changed BEFORE UPDATE ON placements
BEGIN SELECT RAISE(ABORT, 'placements are never changed'); END;
CREATE TRIGGER placements_are_never_deleted BEFORE DELETE ON placements
BEGIN SELECT RAISE(ABORT, 'placements are never deleted'); END;
CREATE TRIGGER placements_are_never_replaced BEFORE INSERT ON placements
WHEN EXISTS (SELECT 1 FROM placements WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'placements are never replaced'); END;
";

/// Opens a ledger and brings it to the latest layout; creates it when `create` allows.
pub(crate) fn connect(path: &Path, create: bool) -> Result<Connection, LedgerError> {
    let failed = |source| LedgerError::of_sqlite(path, source);
    // SQLite has only numbers for these, and would wait for somebody to write into a pipe.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let detail = "it is a directory or a special file".to_owned();
        return Err(LedgerError::NotALedger { path: path.to_owned(), detail });
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    // The identity is looked at before anything is written: a foreign file stays as it is.
    identify(&connection, path)?;
    switch_to_wal(&connection).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// Refuses files that are no ledgers or of a later version, and tells the version.
fn identify(connection: &Connection, path: &Path) -> Result<i64, LedgerError> {
    let failed = |source| LedgerError::of_sqlite(path, source);
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let version = number("user_version").map_err(failed)?;
    let application = number("application_id").map_err(failed)?;
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let fresh = objects == 0 && version == 0 && application == 0;
    if application != APPLICATION_ID && !fresh {
        let detail = "it is a database of another program".to_owned();
        return Err(LedgerError::NotALedger { path: path.to_owned(), detail });
    }
    if version > LATEST {
        return Err(LedgerError::Newer { path: path.to_owned(), found: version, known: LATEST });
    }
    Ok(version)
}

/// Switches to write-ahead logging. SQLite does not wait here when two processes open a new file at once.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let switched = connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
        match switched {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && began.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), LedgerError> {
    let failed = |source| LedgerError::of_sqlite(path, source);
    if identify(connection, path)? == LATEST {
        return Ok(());
    }
    // Immediate: of two processes the second waits here and then finds nothing left to do.
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate).map_err(failed)?;
    let version = identify(&transaction, path)?;
    for (_, script) in MIGRATIONS.iter().filter(|(brings_to, _)| *brings_to > version) {
        transaction.execute_batch(script).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", LATEST).map_err(failed)?;
    transaction.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_ledger_keeps_its_rows_and_their_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(VERSION_1).unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        let row = |id: i64, kind: &str| {
            format!(
                "INSERT INTO observations VALUES ({id}, 't', '{kind}', 'a', 'b', 'c', 1, NULL, 2, 'e', 'o', '{{}}', 3, 'd', 'z')"
            )
        };
        old.execute_batch(&row(3, "nop")).unwrap();
        old.execute_batch(&row(7, "oracle")).unwrap();
        drop(old);
        let ledger = connect(&path, false).unwrap();
        let row_text =
            "id || kind || coalesce(memory_mb, 'none') || millicpus || coalesce(cheat_group, 'none')";
        let rows: Vec<String> = ledger
            .prepare(&format!("SELECT {row_text} FROM observations ORDER BY id"))
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(rows, ["3nopnone2none", "7oraclenone2none"]);
        for statement in [
            "UPDATE observations SET outcome = ''",
            "DELETE FROM observations",
            "INSERT OR REPLACE INTO observations SELECT * FROM observations",
            "INSERT INTO observations SELECT NULL, task_id, 'cheat', tree_digest, verifier_digest, image_digest, 1, 1, 1, '', '', '', 1, '', '', NULL FROM observations",
        ] {
            assert!(ledger.execute_batch(statement).is_err(), "{statement}");
        }
        // A number is never given twice, not even one of the time before.
        ledger
            .execute_batch(&row(0, "cheat:x").replace("(0,", "(NULL,").replace("'z')", "'z', 'g')"))
            .unwrap();
        assert_eq!(ledger.last_insert_rowid(), 8);
        let version: i64 = ledger.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, LATEST);
    }
}
