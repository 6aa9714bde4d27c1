//! What is odd about the files of a job: counted and shown, never a reason to stop.

use serde::Serialize;
use serde::ser::SerializeStruct;

use super::TimeError;

/// Something odd, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Oddity {
    /// The file or directory, relative to the directory that was read; empty for that directory itself.
    pub path: String,
    /// What is odd about it.
    pub what: What,
}

impl Serialize for Oddity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut oddity = serializer.serialize_struct("Oddity", 3)?;
        oddity.serialize_field("path", &self.path)?;
        oddity.serialize_field("kind", self.what.kind())?;
        oddity.serialize_field("what", &self.what.to_string())?;
        oddity.end()
    }
}

impl std::fmt::Display for Oddity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            write!(f, "{}", self.what)
        } else {
            write!(f, "{}: {}", self.path, self.what)
        }
    }
}

/// What is odd. Keys are written as paths in the document, such as `verifier_result.rewards.reward`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum What {
    /// The system refused to read it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A link, a directory or a special file in place of a file, or a link in place of a directory.
    #[error("is a link or a special file, and was not read")]
    NotPlain,
    /// Larger than the bound.
    #[error("has {size} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The bound in bytes.
        limit: u64,
    },
    /// There is nothing in it.
    #[error("is empty")]
    Empty,
    /// It ends in the middle of a value.
    #[error("was written half only: {0}")]
    Cut(String),
    /// It is no JSON, also by Python's wider idea of it.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// A document of Seatrial's that lacks something or has it in another form.
    #[error("does not follow its schema: {0}")]
    Invalid(String),
    /// A document of Seatrial's with a schema that is not known.
    #[error("has the schema `{0}`, which is not known")]
    OtherSchema(String),
    /// The document is something else than an object.
    #[error("holds {0} instead of an object")]
    NotAnObject(&'static str),
    /// Bytes that are not UTF-8.
    #[error("holds bytes that are not UTF-8, read as U+FFFD")]
    NotUtf8,
    /// A byte order mark at its beginning.
    #[error("begins with a byte order mark")]
    ByteOrderMark,
    /// A token of Python's that JSON does not have, or a number that is too large; read as no value.
    #[error("`{key}` is {token}, which is not a number")]
    NonFinite {
        /// Its key.
        key: String,
        /// As it stands there.
        token: String,
    },
    /// Half of a surrogate pair, read as U+FFFD.
    #[error("`{key}` holds half of a surrogate pair, read as U+FFFD")]
    LoneSurrogate {
        /// Its key.
        key: String,
    },
    /// A key that stands twice in one object.
    #[error("`{key}` is given twice; the last one counts")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value of another type than the format has there; read as no value.
    #[error("`{key}` is {found} instead of {wanted}")]
    WrongType {
        /// Its key.
        key: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A time that no rule covers; read as no value.
    #[error("`{key}` is {text}: {why}")]
    Time {
        /// Its key.
        key: String,
        /// As it stands there, cut.
        text: String,
        /// Why it is refused.
        why: TimeError,
    },
    /// An end before its beginning.
    #[error("`{key}` ends before it begins")]
    EndsBeforeItBegins {
        /// What ends.
        key: String,
    },
    /// A version of the format that is not known.
    #[error("has schema version {0}, which is not known; what is known of it was read")]
    UnknownVersion(u64),
    /// The trial's documents give it another name than its directory has.
    #[error("calls the trial `{0}`")]
    OtherName(String),
    /// Rewards, none of which is called `reward`.
    #[error("has rewards called {} and none called `reward`", .0.join(", "))]
    NoRewardKey(Vec<String>),
    /// A reward of a trial whose agent never began, which says nothing about the agent.
    #[error("has a reward, but its agent never began")]
    NoAgent,
    /// `reward_valid` is not what follows from rewards and exceptions.
    #[error("says `reward_valid` is {claimed}, which does not follow from its rewards and exceptions")]
    ValidityDiffers {
        /// What it says.
        claimed: bool,
    },
    /// Seatrial's record contradicts Harbor's document, which counts.
    #[error("says `{key}` is {record}, but result.json says {result}")]
    RecordDiffers {
        /// What they differ in.
        key: &'static str,
        /// What the record says.
        record: String,
        /// What the result says.
        result: String,
    },
    /// A record of a trial that has no result.
    #[error("is there, but the result that is written after it is not")]
    RecordWithoutResult,
    /// A file that says a reward, and no result that counts it.
    #[error("is there, but no result.json that counts it")]
    StrayReward,
    /// A directory in a job with nothing in it that a trial writes.
    #[error("holds nothing that a trial writes")]
    NothingOfATrial,
    /// A second directory of a trial, with the same result; it does not count.
    #[error("is a copy of `{of}` and does not count")]
    EqualCopy {
        /// The directory that counts.
        of: String,
    },
    /// A second directory of a trial, with another result; it does not count.
    #[error("has the trial name of `{of}` and another result; `{of}` counts")]
    DifferentCopy {
        /// The directory that counts.
        of: String,
    },
    /// A number of the job's result that its trials do not bear out.
    #[error("says `{key}` is {claimed}, but the trials give {counted}")]
    CountDiffers {
        /// Its key.
        key: String,
        /// What it says.
        claimed: String,
        /// What the trials say.
        counted: String,
    },
    /// A reward in the job's result that is not the trial's.
    #[error("says {key} of `{trial}` is {claimed}, but the trial says {found}")]
    RewardDiffers {
        /// The trial.
        trial: String,
        /// The name of the reward.
        key: String,
        /// What the job says.
        claimed: String,
        /// What the trial says.
        found: String,
    },
    /// An exception in the job's result that is not the trial's.
    #[error("says `{trial}` ended with {claimed}, but the trial says {found}")]
    ExceptionDiffers {
        /// The trial.
        trial: String,
        /// What the job says.
        claimed: String,
        /// What the trial says.
        found: String,
    },
    /// A trial that the job's result lists twice where it can stand only once.
    #[error("lists `{trial}` twice in `{key}`")]
    ListedTwice {
        /// The trial.
        trial: String,
        /// The list.
        key: String,
    },
    /// A trial that the job's result counts and that has not ended by its own files.
    #[error("counts `{trial}`, which has no result of its own")]
    CountedUnended {
        /// The trial.
        trial: String,
    },
    /// A trial that ended, in a job that ended, and that the job's result does not list.
    #[error("does not list `{trial}`, which ended")]
    Unlisted {
        /// The trial.
        trial: String,
    },
    /// Trials that the job's result lists and that have no directory.
    #[error("lists {count} trials that have no directory, the first is `{first}`")]
    Lost {
        /// How many.
        count: usize,
        /// The first in order.
        first: String,
    },
    /// Planned trials of a job that ended of which there is no trace.
    #[error("says the job ended, but of {0} planned trials there is no trace")]
    Absent(usize),
    /// More trials than the job says it has.
    #[error("says {planned} trials are planned, but there are {found}")]
    MoreThanPlanned {
        /// What the job says.
        planned: usize,
        /// How many there are.
        found: usize,
    },
    /// Results of trials inside of the job's own, which are not read.
    #[error("holds {0} results of trials of its own, which are not read")]
    InlineResults(usize),
    /// A directory in a job that is a job of its own; its trials do not count here.
    #[error("is a job of its own, whose trials do not count here")]
    NestedJob,
    /// A directory among jobs that is none.
    #[error("is not the directory of a job")]
    NotAJob,
}

impl What {
    /// The stable name of the kind of oddity.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::NotPlain => "not_plain",
            Self::TooLarge { .. } => "too_large",
            Self::Empty => "empty",
            Self::Cut(_) => "cut",
            Self::NotJson(_) => "not_json",
            Self::Invalid(_) => "invalid",
            Self::OtherSchema(_) => "other_schema",
            Self::NotAnObject(_) => "not_an_object",
            Self::NotUtf8 => "not_utf8",
            Self::ByteOrderMark => "byte_order_mark",
            Self::NonFinite { .. } => "non_finite",
            Self::LoneSurrogate { .. } => "lone_surrogate",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::WrongType { .. } => "wrong_type",
            Self::Time { .. } => "time",
            Self::EndsBeforeItBegins { .. } => "ends_before_it_begins",
            Self::UnknownVersion(_) => "unknown_version",
            Self::OtherName(_) => "other_name",
            Self::NoRewardKey(_) => "no_reward_key",
            Self::NoAgent => "no_agent",
            Self::ValidityDiffers { .. } => "validity_differs",
            Self::RecordDiffers { .. } => "record_differs",
            Self::RecordWithoutResult => "record_without_result",
            Self::StrayReward => "stray_reward",
            Self::NothingOfATrial => "nothing_of_a_trial",
            Self::EqualCopy { .. } => "equal_copy",
            Self::DifferentCopy { .. } => "different_copy",
            Self::CountDiffers { .. } => "count_differs",
            Self::RewardDiffers { .. } => "reward_differs",
            Self::ExceptionDiffers { .. } => "exception_differs",
            Self::ListedTwice { .. } => "listed_twice",
            Self::CountedUnended { .. } => "counted_unended",
            Self::Unlisted { .. } => "unlisted",
            Self::Lost { .. } => "lost",
            Self::Absent(_) => "absent",
            Self::MoreThanPlanned { .. } => "more_than_planned",
            Self::InlineResults(_) => "inline_results",
            Self::NestedJob => "nested_job",
            Self::NotAJob => "not_a_job",
        }
    }
}

/// Gathers what is odd about one file.
#[derive(Debug, Default)]
pub(super) struct Odd {
    found: Vec<What>,
}

impl Odd {
    pub(super) fn add(&mut self, what: What) {
        self.found.push(what);
    }

    /// Gives everything the path of the file.
    pub(super) fn at(self, path: &str) -> impl Iterator<Item = Oddity> {
        let path = path.to_owned();
        self.found.into_iter().map(move |what| Oddity { path: path.clone(), what })
    }
}
