//! How much two prompts say the same.
//!
//! A prompt is the set of its runs of three words. Two prompts are nearly the same when four fifths of the runs of both
//! are common, or when they are short and differ in a single word; and when the names in them agree as well, because a
//! template with the name of another function in it is another task. MinHash only finds the pairs that are worth
//! comparing; the comparison itself is exact.

/// Words in a run.
const RUN: usize = 3;
/// No more words than this are read of a prompt.
const MAX_WORDS: usize = 4096;
/// Prompts with fewer words are short: a single other word changes more than a fifth of their runs.
const SHORT: usize = 30;
/// Hash functions of a signature.
const HASHES: usize = BANDS * ROWS;
/// Groups of hash functions that have to agree for two prompts to be compared.
const BANDS: usize = 16;
/// Hash functions of a group. At a similarity of 0.8 the chance that no group agrees is below one in four thousand.
const ROWS: usize = 4;

/// What is kept of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Hashes of its runs, ascending, each once.
    runs: Vec<u32>,
    /// The hashes of its words, where it is short.
    words: Vec<u64>,
    /// The hashes of the names in it, ascending, each once.
    names: Vec<u64>,
    /// What two prompts that are nearly the same share at least one of, all but certainly.
    keys: Vec<u64>,
}

impl Prompt {
    /// Reads a prompt without its canary lines; case and everything but letters and digits does not count.
    pub(crate) fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !crate::lines::is_canary(line));
        let read: Vec<(u64, bool)> = lines.flat_map(words_of).take(MAX_WORDS).collect();
        let words: Vec<u64> = read.iter().map(|(word, _)| *word).collect();
        let mut names: Vec<u64> = read.iter().filter(|(_, name)| *name).map(|(word, _)| *word).collect();
        names.sort_unstable();
        names.dedup();
        if words.is_empty() {
            return Self::default();
        }
        let mut runs: Vec<u32> = words
            .windows(RUN.min(words.len()))
            .map(|run| hash_of(run.iter().copied(), run.len()) as u32)
            .collect();
        runs.sort_unstable();
        runs.dedup();
        let words = if words.len() < SHORT { words } else { Vec::new() };
        let keys = keys(&runs, &words);
        Self { runs, words, names, keys }
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a single other word would make it another prompt by its runs alone.
    pub(crate) fn is_short(&self) -> bool {
        !self.words.is_empty()
    }

    /// Keys of which two prompts that are nearly the same share at least one, all but certainly.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// How much both have in common, in thousandths, when that is enough to call them nearly the same.
    pub(crate) fn likeness(&self, other: &Self) -> Option<u16> {
        if self.is_empty() || other.is_empty() {
            return None;
        }
        let (common_runs, all_runs) = overlap(&self.runs, &other.runs);
        let (common_names, all_names) = overlap(&self.names, &other.names);
        let one_word = self.is_short()
            && self.words.len() == other.words.len()
            && self.words.iter().zip(&other.words).filter(|(a, b)| a != b).count() == 1;
        let alike = common_runs * 5 >= all_runs * 4 || one_word;
        (alike && common_names * 10 >= all_names * 9).then_some((common_runs * 1000 / all_runs) as u16)
    }
}

/// The keys of a prompt with these runs, and these words where it is short.
fn keys(runs: &[u32], words: &[u64]) -> Vec<u64> {
    let signature = signature(runs);
    let bands = signature.chunks(ROWS).enumerate().map(|(band, rows)| {
        hash_of([band as u64].into_iter().chain(rows.iter().map(|row| u64::from(*row))), 1 + rows.len())
    });
    // Short prompts that differ in one word are the same with that word struck out.
    let struck = (0..words.len()).map(|at| {
        let others = words.iter().enumerate().map(|(place, word)| if place == at { 0 } else { *word });
        hash_of(others, words.len())
    });
    bands.chain(struck).collect()
}

/// The smallest value of each hash function over the runs.
///
/// A run is spread over 16 bits first; each function then multiplies by an odd number and adds another, which the compiler does for
/// many functions at once.
fn signature(runs: &[u32]) -> [u16; HASHES] {
    let mut smallest = [u16::MAX; HASHES];
    for run in runs {
        let spread = (mix(u64::from(*run)) >> 48) as u16;
        for (least, (factor, summand)) in smallest.iter_mut().zip(FACTORS.iter().zip(&SUMMANDS)) {
            *least = (*least).min(spread.wrapping_mul(*factor).wrapping_add(*summand));
        }
    }
    smallest
}

const FACTORS: [u16; HASHES] = numbers(1);
const SUMMANDS: [u16; HASHES] = numbers(0);

/// Numbers that look random, odd ones where `odd` is 1.
const fn numbers(odd: u16) -> [u16; HASHES] {
    let mut numbers = [0; HASHES];
    let mut at = 0;
    while at < HASHES {
        numbers[at] = (mix(at as u64 * 2 + odd as u64 + 1) >> 48) as u16 | odd;
        at += 1;
    }
    numbers
}

/// How many values two ascending lists share, and how many there are in both together.
fn overlap<T: Ord>(a: &[T], b: &[T]) -> (usize, usize) {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        common += usize::from(left == right);
        (i, j) = (i + usize::from(left <= right), j + usize::from(right <= left));
    }
    (common, a.len() + b.len() - common)
}

/// The words of a line, each with whether it is a name: in backticks, or with an underscore, a digit or a capital
/// behind a small letter.
fn words_of(line: &str) -> impl Iterator<Item = (u64, bool)> {
    let mut chars = line.chars();
    let mut quoted = false;
    std::iter::from_fn(move || {
        let mut word: Option<Word> = None;
        loop {
            match chars.next() {
                Some(c) if c.is_alphanumeric() || c == '_' => word.get_or_insert_default().push(c),
                end => {
                    let in_quotes = quoted;
                    quoted ^= end == Some('`');
                    if let Some(word) = word {
                        return Some((word.hash(), in_quotes || word.is_name));
                    }
                    end?;
                }
            }
        }
    })
}

/// What is known of a word that is being read.
struct Word {
    hash: u64,
    is_name: bool,
    after_small_letter: bool,
}

impl Default for Word {
    fn default() -> Self {
        // The beginning of FNV-1a, here over characters in place of bytes.
        Self { hash: 0xcbf2_9ce4_8422_2325, is_name: false, after_small_letter: false }
    }
}

impl Word {
    fn push(&mut self, c: char) {
        let mut step = |c: char| self.hash = (self.hash ^ u64::from(c)).wrapping_mul(0x0100_0000_01b3);
        // Nearly every character is one of these.
        if c.is_ascii_lowercase() {
            self.after_small_letter = true;
            step(c);
            return;
        }
        c.to_lowercase().for_each(step);
        self.is_name |= c == '_' || c.is_numeric() || (self.after_small_letter && c.is_uppercase());
        self.after_small_letter = c.is_lowercase();
    }

    /// The hash of the word without its case. Like all hashes here it is the same on every machine and in every version, which those of
    /// the standard library do not promise.
    fn hash(&self) -> u64 {
        // 0 stands for a word that is struck out.
        mix(self.hash).max(1)
    }
}

/// The hash of so many values.
fn hash_of(values: impl Iterator<Item = u64>, count: usize) -> u64 {
    values.fold(count as u64, |hash, value| mix(hash ^ value))
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the value.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A word of letters for each number.
    fn word(number: usize) -> String {
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
    }

    fn likeness(a: &str, b: &str) -> Option<u16> {
        let (a, b) = (Prompt::of(a), Prompt::of(b));
        let found = a.likeness(&b);
        assert_eq!(found, b.likeness(&a));
        let shared = a.keys().iter().any(|key| b.keys().contains(key));
        assert!(found.is_none() || shared, "alike, and no key is shared");
        found
    }

    #[test]
    fn form_does_not_count_and_words_do() {
        assert_eq!(likeness("Repair  the sum.", "repair THE\n\nsum"), Some(1000));
        assert_eq!(likeness("<!-- canary x -->\nRepair the sum.", "Repair the sum."), Some(1000));
        assert_eq!(likeness("Repair the sum.", "Repair this sum."), Some(0));
        assert_eq!(likeness("Repair the sum.", "Repair this product."), None);
        assert_eq!(likeness("Repair the sum.", "Repair the sum at once."), None);
        assert_eq!(likeness("Repair `sum` now.", "Repair `product` now."), None);
        assert_eq!(likeness("Repair set_sum now.", "Repair setSum now."), None);
        assert_eq!(likeness("Repair `sum` now.", "Mend `sum` now."), Some(0));
        assert_eq!(likeness("", ""), None);
        assert_eq!(likeness("...", "a b c"), None);
    }

    #[test]
    fn long_prompts_may_differ_in_a_fifth() {
        let words = |changed: std::ops::Range<usize>| -> String {
            (0..100)
                .map(|n| if changed.contains(&n) { "x ".into() } else { format!("{} ", word(n)) })
                .collect()
        };
        // One other word changes three of 98 runs.
        assert_eq!(likeness(&words(0..0), &words(50..51)), Some(940));
        assert!(likeness(&words(0..0), &words(40..50)).is_none_or(|likeness| likeness >= 800));
        assert_eq!(likeness(&words(0..0), &words(20..60)), None);
    }

    #[test]
    fn pairs_at_the_bound_share_a_key() {
        // Four other words in 120, apart from each other, leave 106 of 130 runs in common.
        let words = |pair: usize, other: bool| -> String {
            let word = |n: usize| if other && n % 30 == 11 { n + 500 } else { n };
            let words: Vec<_> = (0..120).map(|n| self::word(pair * 1000 + word(n))).collect();
            words.join(" ")
        };
        let shares = |pair: &usize| {
            let (a, b) = (Prompt::of(&words(*pair, false)), Prompt::of(&words(*pair, true)));
            assert_eq!(a.likeness(&b), Some(815));
            a.keys().iter().any(|key| b.keys().contains(key))
        };
        let found = (0..1000).filter(shares).count();
        assert!(found >= 998, "{found} of 1000");
    }

    proptest! {
        /// A single other word is found wherever it stands and however long the prompt is.
        #[test]
        fn one_other_word_is_always_found(length in 2usize..400, at in 0usize..400) {
            let at = at % length;
            let text = |other: bool| -> String {
                (0..length).map(|n| if other && n == at { "other ".into() } else { format!("{} ", word(n)) }).collect()
            };
            prop_assert!(likeness(&text(false), &text(true)).is_some());
        }
    }
}
