/** A failure whose text is all its reader needs: no stack. */
export class Failure extends Error {}

/** A command line that cannot be meant. */
export class UsageFailure extends Error {}
