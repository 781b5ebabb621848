// Package arbiter answers proposals: actions, memory writes and recalls.
//
// A verdict is the join, in allow < hold < deny, of the policy's floor for the
// action's level, the host's own verdict, what is wrong with the session or
// the beliefs that the action cites, and one assessment of every sentinel
// group that the policy requires. Groups answer in ledger order, so that an
// assessment of a proposal proves that its group has seen every observation
// before it. A group that is silent past its deadline counts as hold, or deny
// if the policy says so, and is named.
//
// The fold (fold.go) decides; the front (front.go) turns requests into
// proposals and entries into replies. Only what stands in the ledger is
// answered, and everything that is answered stands in the ledger.
package arbiter
