//! How many values are decoded at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

/// How many more values of a column may be decoded for the batch of rows at hand. A few bytes of a file can stand for
/// billions of them.
#[derive(Debug, Clone)]
pub struct ValueBudget {
    limit: u64,
    left: Arc<AtomicU64>,
}

impl ValueBudget {
    /// A budget of `limit` values a batch.
    pub fn new(limit: u64) -> Self {
        Self { limit, left: Arc::new(AtomicU64::new(limit)) }
    }

    /// Begins a new batch.
    pub fn renew(&self) {
        self.left.store(self.limit, Ordering::Relaxed);
    }

    /// The pages of a column, as long as they claim no more values than are left. `what` says in the error what those
    /// values are.
    pub fn bound(&self, pages: Box<dyn PageReader>, what: String) -> Box<dyn PageReader> {
        Box::new(BoundedPages { pages, budget: self.clone(), what })
    }
}

struct BoundedPages {
    pages: Box<dyn PageReader>,
    budget: ValueBudget,
    what: String,
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        let values = match &page {
            Some(page @ (Page::DataPage { .. } | Page::DataPageV2 { .. })) => u64::from(page.num_values()),
            _ => 0,
        };
        let ValueBudget { limit, left } = &self.budget;
        let Some(rest) = left.load(Ordering::Relaxed).checked_sub(values) else {
            return Err(ParquetError::General(format!("more than {limit} {}", self.what)));
        };
        left.store(rest, Ordering::Relaxed);
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for BoundedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use parquet::column::reader::{ColumnReader, get_column_reader};
    use parquet::file::reader::FileReader;

    use super::*;
    use crate::testing::write_lists;

    /// Reads the lists of a file two at a time, and says how many were read before the error.
    fn read(values: usize, limit: u64) -> Result<usize, String> {
        let reader = crate::open(write_lists(values)).unwrap();
        let group = reader.get_row_group(0).unwrap();
        let budget = ValueBudget::new(limit);
        let pages = budget.bound(group.get_column_page_reader(0).unwrap(), "numbers in 2 rows".into());
        let description = group.metadata().column(0).column_descr_ptr();
        let ColumnReader::Int32ColumnReader(mut lists) = get_column_reader(description, pages) else {
            panic!("another type");
        };
        let mut rows = 0;
        loop {
            budget.renew();
            let (mut definition, mut repetition, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
            let read = lists.read_records(2, Some(&mut definition), Some(&mut repetition), &mut numbers);
            match read.map_err(|error| error.to_string())?.0 {
                0 => return Ok(rows),
                more => rows += more,
            }
        }
    }

    #[test]
    fn a_batch_decodes_no_more_values_than_it_may() {
        assert_eq!(read(600, 1_000), Ok(4));
        let message = read(600, 100).unwrap_err();
        assert!(message.ends_with("more than 100 numbers in 2 rows"), "{message}");
    }
}
