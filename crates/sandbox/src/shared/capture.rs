//! Keeps the head and the tail of an output stream in bounded memory.

use std::collections::VecDeque;

use crate::Output;

/// Collects one stream.
#[derive(Debug)]
pub(crate) struct Collector {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Collector {
    /// Keeps at most `limit` bytes: the first half from the start, the rest from the end.
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit: limit - head_limit, total: 0 }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the last `tail_limit` bytes of `rest` can matter.
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// What was kept. Where bytes are left out, a marker line stands in their place and takes its room from the
    /// tail, so that the whole never exceeds the limit.
    pub(crate) fn finish(mut self) -> Output {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head;
        if self.total > kept {
            // The widest number bounds the marker's length. Without room for it and some tail there is no marker.
            let tail = self.tail_limit.saturating_sub(marker(u64::MAX).len());
            if tail > 0 {
                self.tail.drain(..self.tail.len() - tail);
                let left_out = self.total - (bytes.len() + tail) as u64;
                bytes.extend_from_slice(marker(left_out).as_bytes());
            }
        }
        bytes.extend(self.tail);
        Output { bytes, total: self.total }
    }
}

fn marker(left_out: u64) -> String {
    format!("\n[... {left_out} bytes left out ...]\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn collect(limit: usize, chunks: &[&[u8]]) -> Output {
        let mut collector = Collector::new(limit);
        for chunk in chunks {
            collector.push(chunk);
        }
        collector.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        assert_eq!(collect(6, &[b"abc", b"def"]).bytes, b"abcdef");
        assert_eq!(collect(0, &[]).bytes, b"");
    }

    #[test]
    fn the_middle_gives_way_to_a_marker() {
        let long = vec![b'x'; 1000];
        let output = collect(200, &[b"start", &long, b"end"]);
        let text = String::from_utf8(output.bytes.clone()).unwrap();
        assert!(text.starts_with("startxxx") && text.ends_with("xxxend"), "{text}");
        assert!(text.contains("\n[... ") && text.contains(" bytes left out ...]\n"), "{text}");
        assert!(output.truncated());
        assert_eq!(output.total, 1008);
    }

    proptest! {
        #[test]
        fn bounds_and_counts_hold(
            limit in 0_usize..300,
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8),
        ) {
            let whole: Vec<u8> = chunks.concat();
            let slices: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let output = collect(limit, &slices);
            prop_assert_eq!(output.total, whole.len() as u64);
            prop_assert!(output.bytes.len() <= limit);
            prop_assert_eq!(output.truncated(), whole.len() > limit);
            if whole.len() <= limit {
                prop_assert_eq!(output.bytes, whole);
            } else {
                let head = limit / 2;
                prop_assert_eq!(&output.bytes[..head], &whole[..head]);
                prop_assert_eq!(output.bytes.last(), (limit > 0).then(|| whole.last().unwrap()));
            }
        }

        #[test]
        fn chunking_does_not_matter(
            limit in 0_usize..200,
            whole in proptest::collection::vec(any::<u8>(), 0..600),
            size in 1_usize..50,
        ) {
            let pieces: Vec<&[u8]> = whole.chunks(size).collect();
            prop_assert_eq!(collect(limit, &pieces), collect(limit, &[&whole]));
        }
    }
}
