// Package approval finds statements about approvals in English text. An agent cannot approve its own acts. So a note of
// an agent that says that an approval was given, or that none is needed, is no fact.
//
// The rule approval-claim and the grade that ingest gives to notes use the same functions.
//
// The package imports the standard library only. Start reading at [Claimed].
package approval
