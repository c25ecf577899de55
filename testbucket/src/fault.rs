use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Get,
    Put,
    List,
    Delete,
}

/// What goes wrong with requests that are still to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub on: Operation,
    /// With this beginning of the key, or of a listing's prefix.
    pub key: String,
    /// With so many of them.
    pub times: u32,
    pub what: What,
}

impl Fault {
    pub fn once(on: Operation, what: What) -> Self {
        Self { on, key: String::new(), times: 1, what }
    }

    pub fn always(on: Operation, what: What) -> Self {
        Self { times: u32::MAX, ..Self::once(on, what) }
    }

    pub fn at(self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The request is not carried out, and answered with this status.
    Status(u16),
    /// It is carried out, and answered with this status all the same.
    StatusAfterAll(u16),
    /// The connection ends before anything happens.
    LostRequest,
    /// It is carried out, and the connection ends without an answer.
    LostAnswer,
    /// The connection ends, and it is carried out so many milliseconds later.
    Late(u64),
    /// The answer comes so many milliseconds late.
    Silent(u64),
    /// The head of the answer comes at once, its body so many milliseconds later.
    SlowBody(u64),
    /// The page ends after so many keys.
    Short(u16),
    /// The answer's body is this.
    Body(String),
}
