import { exec } from "./index.js";

/** Runs the function as part of the open transaction, or as one of its own: all or nothing. */
export function together<T>(work: () => T): T {
  // The outermost savepoint is a transaction, which its release commits.
  exec("SAVEPOINT _sdk_together");
  try {
    const value = work();
    exec("RELEASE _sdk_together");
    return value;
  } catch (error) {
    try {
      exec("ROLLBACK TO _sdk_together");
      exec("RELEASE _sdk_together");
    } catch {
      // SQLite has rolled back all of it already.
    }
    throw error;
  }
}
