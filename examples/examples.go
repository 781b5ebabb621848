package examples

import _ "embed"

// PoisonedSession is one real agent session in the format of `lazaret replay`:
// a calendar event asks the reader for a patient's record and to mail it. Its
// origin and licence are in README.md.
//
//go:embed poisoned-session.jsonl
var PoisonedSession []byte
