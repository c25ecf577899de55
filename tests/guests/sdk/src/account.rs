//! A service with an error of its own.

use serde::{Deserialize, Serialize};
use wasmkeep_sdk::service::ServiceError;
use wasmkeep_sdk::{Error, Request, Response, Result, json};

use crate::Sdk;

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum AccountError {
    #[error("only {left} left")]
    TooLittle { left: u32 },
}

wasmkeep_sdk::service! {
    /// An account in memory.
    pub trait Account {
        type Client = AccountClient;
        type Error = AccountError;

        /// Puts something in.
        fn deposit(&mut self, amount: u32, note: String) -> Balance;
        /// Takes something out.
        fn withdraw(&mut self, amount: u32);
        /// How much there is.
        fn balance(&mut self) -> u32;
        /// Answers with an ordinary error.
        fn taken(&mut self);
        /// Traps.
        fn trap(&mut self);
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Balance {
    balance: u32,
    note: String,
}

impl Account for Sdk {
    fn deposit(&mut self, amount: u32, note: String) -> Result<Balance> {
        self.balance += amount;
        Ok(Balance { balance: self.balance, note })
    }

    fn withdraw(&mut self, amount: u32) -> Result<()> {
        let left = self.balance.checked_sub(amount);
        self.balance = left.ok_or(AccountError::TooLittle { left: self.balance })?;
        Ok(())
    }

    fn balance(&mut self) -> Result<u32> {
        Ok(self.balance)
    }

    fn taken(&mut self) -> Result<()> {
        Err(Error::status(409, "taken"))
    }

    fn trap(&mut self) -> Result<()> {
        crate::trap()
    }
}

/// `{ok}`, `{own}` with the service's error, or `{failed, retry}`.
pub fn ask(request: &Request) -> Result<Response> {
    let client = AccountClient::new(crate::parameter(request, "target")?);
    let n = request.parse_query("n")?.unwrap_or(0);
    let answer = match crate::parameter(request, "method")? {
        "deposit" => client.deposit(n, "from é".to_owned()).map(|made| json!(made)),
        "withdraw" => client.withdraw(n).map(|()| json!(null)),
        "balance" => client.balance().map(|balance| json!(balance)),
        "taken" => client.taken().map(|()| json!(null)),
        "trap" => client.trap().map(|()| json!(null)),
        other => return Err(Error::bad_request(format!("no method {other:?}"))),
    };
    Ok(Response::json(&match answer {
        Ok(value) => json!({ "ok": value }),
        Err(ServiceError::Own(error)) => json!({ "own": error }),
        Err(ServiceError::Failed(failure)) => {
            json!({ "failed": failure.to_string(), "retry": failure.may_be_retried() })
        }
    }))
}
