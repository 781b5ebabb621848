// Package arbiter gives a verdict on every proposal: actions, memory writes and recalls.
//
// A verdict is the join (allow < hold < deny) of:
//
//   - the policy's floor for the action's level,
//   - the host's own verdict,
//   - reasons from the session and from the beliefs that the action cites,
//   - one assessment by every sentinel group that the policy requires.
//
// Groups answer in ledger order, so an assessment of a proposal proves that its group has judged
// every observation before it. A group that misses its deadline counts as hold, or as deny if the
// policy says so, and a reason names it.
//
// The fold (fold.go) decides. The front (front.go) converts requests to proposals and ledger
// entries to replies. Every reply comes from the ledger, and every verdict is in the ledger.
package arbiter
