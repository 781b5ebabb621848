// Package ceiling keeps what is too sensitive from leaving: it labels ledger
// entries with how sensitive they are, so that an export can redact those above
// the sensitivity that it may carry.
//
// A label begins with a writer's word on a memory (sensitivity, internal unless
// said) and goes, within the project, to whatever names that memory or its
// event, was made from a labelled entry, or has its words: a verdict that quotes
// it, an alert about it, a note that derives from it, an action whose arguments
// carry it, also encoded. Who only names a labelled thing is labelled too: that
// errs on the side of leaving out.
//
// It does not see a secret that nobody marked, or one in entirely other
// words. Of a log that is read twice (Scan, then Of) what was read before a
// memory was marked is labelled as well; whoever follows a ledger has sent it by
// then.
//
// It may import streams, pkg/beliefs and pkg/text. Begin reading with Labels.Scan.
package ceiling
