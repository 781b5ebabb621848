// Package approval finds statements about approvals in English text. An agent cannot approve its own acts. Therefore an
// agent's note that an approval was given, or that none is needed, does not count as a fact.
//
// The rule approval-claim uses these functions, and so does ingest when it grades a note.
//
// The package imports the standard library only. Start reading at [Claimed].
package approval
