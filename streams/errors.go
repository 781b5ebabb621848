package streams

// Code is a stable error code, used in the answers of services and in rejected entries. The table
// below is the only place where codes are defined. docs/errors.md is generated from it.
type Code string

// The codes. 1xx: the event itself; 2xx: the pipeline could not answer;
// 3xx: the verdict's own reasons; 4xx: operator commands; 5xx: proofs; 6xx: HTTP.
const (
	CodeMalformed   Code = "LZ101"
	CodeTooLarge    Code = "LZ102"
	CodeUnknownKind Code = "LZ103"
	CodeBadSubject  Code = "LZ104"
	CodeInvalid     Code = "LZ105"
	CodeTimeTravel  Code = "LZ106"
	CodeForeign     Code = "LZ107"
	CodeUncited     Code = "LZ108"
	CodeEntrySize   Code = "LZ109"
	CodeAgentFull   Code = "LZ110"

	CodeTimeout     Code = "LZ201"
	CodeIntakeFull  Code = "LZ202"
	CodeUnavailable Code = "LZ203"
	CodeBadReply    Code = "LZ204"
	CodeShedding    Code = "LZ205"
	CodePending     Code = "LZ206"
	CodeReplySize   Code = "LZ207"
	CodeTaken       Code = "LZ208"

	CodeNoPolicy    Code = "LZ301"
	CodeUnmatched   Code = "LZ302"
	CodeFloor       Code = "LZ303"
	CodeRule        Code = "LZ304"
	CodeSilent      Code = "LZ305"
	CodeUnseen      Code = "LZ306"
	CodeHost        Code = "LZ307"
	CodeRestored    Code = "LZ308"
	CodeBelief      Code = "LZ309"
	CodeHoldBudget  Code = "LZ310"
	CodeLearn       Code = "LZ311"
	CodeContextOnly Code = "LZ312"
	CodeExpired     Code = "LZ313"
	CodeForgotten   Code = "LZ314"
	CodeRests       Code = "LZ315"
	CodeApproved    Code = "LZ320"
	CodeRejected    Code = "LZ321"
	CodeCancelled   Code = "LZ322"
	CodeStanding    Code = "LZ323"
	CodeDelegated   Code = "LZ324"

	CodeProtected Code = "LZ330"
	CodeEgress    Code = "LZ331"
	CodeHoldRate  Code = "LZ332"
	CodeOver      Code = "LZ333"
	CodeMismatch  Code = "LZ334"
	CodeFallen    Code = "LZ335"
	CodeIntegrity Code = "LZ336"

	CodeStaged    Code = "LZ340"
	CodeTombstone Code = "LZ341"
	CodeProcedure Code = "LZ342"

	CodeSignature Code = "LZ401"
	CodeCommand   Code = "LZ402"
	CodeBundle    Code = "LZ403"
	CodeApproval  Code = "LZ404"
	CodeBehind    Code = "LZ405"
	CodeLegalHold Code = "LZ409"

	CodeConfirmation Code = "LZ410"
	CodeOrder        Code = "LZ411"
	CodeTrimmed      Code = "LZ412"
	CodeHole         Code = "LZ413"

	CodeNoEntry   Code = "LZ501"
	CodeUncovered Code = "LZ502"
	CodeGone      Code = "LZ503"

	CodeToken     Code = "LZ601"
	CodeForbidden Code = "LZ602"
	CodeNotHere   Code = "LZ603"
	CodeRequest   Code = "LZ604"
)

// CodeDoc documents a code: its meaning, and what its recipient should do.
type CodeDoc struct {
	Code    Code   `json:"code"`
	Title   string `json:"title"`
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
}

// Codes lists every code in order.
var Codes = []CodeDoc{
	{CodeMalformed, "malformed body", "The body is not the JSON that its kind asks for.",
		"Fix the body; the message names the place. Of an observation: the session is held (LZ306) until it is published " +
			"again in valid form, or until a session starts."},
	{CodeTooLarge, "event too large", "The body exceeds the size limit (1 MiB by default).",
		"Split the content over several observations that share a call."},
	{CodeUnknownKind, "unknown kind", "The subject names no known event kind.",
		"Use one of obs, mem, recall, tools, session, dec, act, out."},
	{CodeBadSubject, "bad subject", "The subject has the wrong number of tokens, an illegal name or an unknown origin.",
		"Build subjects as lz.in.<project>.<agent>.<kind>[.<origin>]."},
	{CodeInvalid, "invalid event", "A field is missing, out of range or illegal.",
		"Fix the field that the message names."},
	{CodeTimeTravel, "time runs backwards", "An event of a synthetic project lies before the one before it.",
		"Send synthetic events in order of their time."},
	{CodeForeign, "not an event",
		"The body is an acknowledgement or reply of NATS that was steered onto an intake subject.",
		"Find who publishes with somebody else's subject as reply subject."},
	{CodeUncited, "decision without citation", "A decision neither cites beliefs nor says that it cites none, or cites " +
		"only what nobody knows. The policy says whether it is refused or recorded with an alert.",
		"Cite the ids of the beliefs that a recall returned, or set cites_none."},
	{CodeEntrySize, "entry too large", "The event is within the size limit, but its ledger entry, with all that is " +
		"derived from it, would exceed the largest message of the ledger.",
		"Split the content over several events. Of an entry that a stage made without an event: report it, with the entry."},
	{CodeAgentFull, "agent has too much waiting", "More bytes of the agent wait in the intake than one agent may have " +
		"there (an eighth of it, or server init --intake-per-agent). The message was not kept; its rejection stands in " +
		"the ledger.",
		"Wait and send again with the same id. Of an observation: the session is held (LZ306) until then. Operators: find " +
			"out why the agent sends so much."},
	{CodeTimeout, "no verdict in time",
		"The proposal is journaled, or may be, but its verdict was not ready within the request's time.",
		"Treat as hold. Ask again with the same id: the same proposal is answered, not a second one."},
	{CodeIntakeFull, "intake refused",
		"The intake stream is full for this agent or altogether, or the server's disk is full; nothing was stored.",
		"Treat as hold. Wait and send again with the same id. If the reason names the disk, make room: lazaret doctor says " +
			"how much is free."},
	{CodeUnavailable, "pipeline unavailable", "The event could not be journaled.",
		"Treat as hold. Send again with the same id."},
	{CodeBadReply, "bad reply subject", "The request's reply subject is not an inbox.",
		"Use a request function of your NATS client, with the inbox prefix of your credential."},
	{CodeShedding, "too many requests", "More requests wait for a verdict than this front admits.",
		"Treat as hold. Wait and send again with the same id."},
	{CodePending, "verdict pending", "The proposal is in the ledger, and the policy lets sentinel groups take until the " +
		"reply's `until`; none of them has refused it, and not all have cleared it.",
		"Treat as hold. Ask again with the same id: the same proposal is answered, not a second one."},
	{CodeReplySize, "answer too large",
		"The verdict is in the ledger, and the answer exceeds the largest message of the server.",
		"Treat as hold. Ask for less, with a smaller limit or fewer candidates, under a new id."},
	{CodeTaken, "id names another proposal", "The id was used for a different proposal, or the answer is not one to the " +
		"proposal that was sent. Nothing was judged.",
		"Treat as hold. Propose it under a new id; make ids that no counter repeats after a restart."},
	{CodeNoPolicy, "no policy in force", "No signed policy was activated yet, so nothing can be allowed.",
		"Activate one: lazaret policy activate."},
	{CodeUnmatched, "no policy entry matches", "The policy knows no such tool; silence is not permission.",
		"Add the tool to the policy, or run it in learn mode first."},
	{CodeFloor, "level requires a person", "The tool's level is held (L4) or prohibited (L5) by the ladder.",
		"Wait for an approval, or choose another way."},
	{CodeRule, "a sentinel rule fired", "A rule asks for hold or deny; the reason names it.",
		"Read the alert. Do not retry in other words."},
	{CodeSilent, "a sentinel group was silent", "A required group had not answered at the deadline, or not under the " +
		"digest that the policy wants; the reason says which.", "Wait for an approval; operators: lazaret doctor."},
	{CodeUnseen, "session has unseen input",
		"An observation of this session was rejected, so the sentinels have not seen what the agent saw.",
		"Publish the observation that the reason names again in valid form, under the same id and origin, or give the " +
			"agent a context without it and run lazaret session start. Another session name alone does not help where the " +
			"rejected observation named no session. Open holds still wait for a person."},
	{CodeHost, "the host's own verdict", "The host program asked for at least this.", "None."},
	{CodeRestored, "intake older than its clients", "The proposal names an acknowledged sequence that this intake never " +
		"gave out: the stream was recreated or restored.", "Operators: check the stream. A new session starts clean."},
	{CodeBelief, "belief not usable", "The action cites a belief that is withheld, contradicted or unknown.",
		"Recall again and decide on what is admitted."},
	{CodeHoldBudget, "too many open holds",
		"The agent has more holds open than the policy admits, so a new hold becomes a deny.",
		"Have the open ones resolved first."},
	{CodeLearn, "learn mode", "The policy only records what it would have done.", "None: the verdict is not enforced."},
	{CodeContextOnly, "belief is context only", "The action cites a belief whose scope does not reach tool actions.",
		"Have a person confirm the belief."},
	{CodeExpired, "hold expired", "Nobody resolved the hold in time. Expired is not denied.",
		"Propose the action again, under a new id, if it is still wanted."},
	{CodeForgotten, "verdict no longer kept", "The id belongs to a proposal of long ago, or to one that was refused; " +
		"its verdict is not kept by the arbiter any more. The ledger may still have it.",
		"Treat as hold. Propose it again under a new id."},
	{CodeApproved, "approved", "A person released the hold with a signed approval; the verdict is allow.",
		"Act, once, as proposed. An edit is a new proposal."},
	{CodeRejected, "rejected", "A person rejected the hold; the verdict is deny. The reason is the person's.",
		"Do not propose the same again. Choose another way, or ask the person."},
	{CodeCancelled, "hold cancelled", "The agent withdrew the proposal, or replaced it by an edit.",
		"Nothing, or wait for the verdict on the edit."},
	{CodeStanding, "standing permission",
		"The action's level would hold it, and the signed policy permits it until a date.", "None."},
	{CodeDelegated, "delegated", "The action's level would hold it, and the session shows on which ground of the signed " +
		"policy it is the user's will; the text names both.", "None."},
	{CodeProtected, "protected resource", "The action's arguments name a resource that the policy protects.",
		"Do without it, or have the operator change the policy."},
	{CodeEgress, "destination not admitted", "The action would reach a private, link-local or metadata address, one " +
		"that the policy denies, or one that is not on its allow-list; or where it reaches cannot be seen.",
		"Use an admitted destination, or have the operator name it in the policy's egress."},
	{CodeHoldRate, "too many holds in a minute",
		"The agent had more actions held within a minute than the policy admits, so a new hold becomes a deny.",
		"Slow down; find out why so much is held."},
	{CodeOver, "over-confident class", "Of the agent's actions of this kind fewer succeeded than it had said, by more " +
		"than chance explains; they are held until that changes.",
		"Wait for an approval; operators: lazaret calibration ls."},
	{CodeMismatch, "outcome without its action", "An executor reported an outcome whose digest is not that of the " +
		"action that was released, or of an action that was never released.", "Find out what the executor ran, and stop it."},
	{CodeFallen, "a belief that was cited fell",
		"A decision or action of the past cites a belief that was contradicted, superseded or quarantined since.",
		"Look at what was decided again; nothing that was done is undone by this."},
	{CodeIntegrity, "belief is not what the ledger says", "A belief that was to be served differs in its words, origin " +
		"or place from its entry in the ledger. It is withheld.", "Operators: somebody has changed a stage's files, or a " +
		"disk has. Stop the stage, look at the incident, and build its state anew from the ledger."},
	{CodeRests, "it rests on what an alert names", "A finding of another time, session or agent bears on the action: on " +
		"a belief that was recalled, or on what its arguments come from. The path says how.",
		"Read the alert at the end of the path."},
	{CodeStaged, "memory is staged", "The write is recorded and is context at most until a person confirms it or " +
		"independent stronger evidence comes; the text says why.", "Have a person confirm it: lazaret beliefs confirm."},
	{CodeTombstone, "value was refused before", "The write says again, in the same or other words, what was refused or " +
		"quarantined; the text names the earlier write.",
		"Do not write it again in other words. A person who wants it signs for it."},
	{CodeProcedure, "procedure without a signature",
		"A skill is served and followed only once a person has signed for exactly its bytes.",
		"Have a person approve the hold, or confirm the belief."},
	{CodeSignature, "signature refused",
		"The command is unsigned, altered, or signed by a key that is not pinned for it.",
		"Sign with a pinned key that has the role."},
	{CodeCommand, "unknown command", "The signed statement is not a command that this version knows.",
		"Check the version of the tool that signed it."},
	{CodeBundle, "bundle refused", "A rule set or policy does not load, or chunks of it are missing.",
		"Run lazaret rules check; the last good set stays in force."},
	{CodeApproval, "approval refused",
		"A signed resolution failed a check, which the text and an alert name; the hold is as it was.",
		"Look at the hold again (lazaret holds show) and sign anew, with a pinned key that has the role."},
	{CodeBehind, "group not ready", "The policy requires a sentinel group that has not answered the proposals decided " +
		"last in this partition; it would hold whatever comes until it has caught up.",
		"Start the group, wait until it has caught up, and activate the policy again; the partitions that refused keep the " +
			"last good one."},
	{CodeLegalHold, "under legal hold",
		"The project's data, or that of a data subject who is in it, is under a legal hold and cannot be forgotten.",
		"Release the hold first: lazaret audit legal-hold release."},
	{CodeConfirmation, "confirmation refused",
		"A signed word on a belief failed a check, which the text and an alert name; the belief is as it was.",
		"Look at the belief again (lazaret beliefs show) and sign anew, with a pinned key that has the role."},
	{CodeOrder, "order refused", "A signed order, on an incident for instance, failed a check, which the text and an " +
		"alert name; nothing changed.",
		"Look at what it is about again (lazaret incident show) and sign anew, with a pinned key that has the role."},
	{CodeHole, "ledger lacks entries", "A stage met sequences that are not in the ledger, and no trimming or signed " +
		"statement on forgetting names them. It does not fold on over them.",
		"Run lazaret audit verify --ledger to see what is missing. Restore the ledger from a backup that has the entries, " +
			"or the stage's state from a snapshot that lies behind them (lazaret state restore STAGE)."},
	{CodeTrimmed, "ledger was trimmed", "One data subject cannot be forgotten: every stage would have to fold the " +
		"project anew without it, and entries that it would need are trimmed away.",
		"Forget the whole project (lazaret audit forget --subject PROJECT), or have what concerns the person forgotten " +
			"before trimming next time."},
	{CodeNoEntry, "no such entry", "The audit log has no entry of the project that was asked for, or none of the agent " +
		"whose payload was asked for. Entries of other projects are answered the same.",
		"Check the id. An event is in the log within a second of its verdict; ask again then."},
	{CodeUncovered, "not covered yet", "The entry is in the audit log, and no signed checkpoint covers it yet.",
		"Ask again in a second."},
	{CodeGone, "payload gone", "What the entry says was forgotten, or this auditor never had it.",
		"Ask without the payload: that the entry is in the log can be proven still."},
	{CodeToken, "token refused", "The HTTP request has no bearer token, or one that is unknown, expired or revoked; or " +
		"the NATS server refuses the credential that it stands for.", "Make a token: lazaret agent token new."},
	{CodeForbidden, "not permitted",
		"The NATS server refuses this to the credential that the token stands for: another origin, kind or feed.",
		"Use a token of a credential that has the right, or have the operator make one."},
	{CodeNotHere, "no such resource", "The HTTP path is unknown, or the gateway does not know the hold: it keeps those " +
		"of the proposals that it passed on, until it restarts or they are too many.",
		"Ask again with the proposal itself and the same id: the same hold is answered."},
	{CodeRequest, "HTTP request refused",
		"The method, the content type, a query parameter or a header is not one that the path takes.",
		"See /v1/openapi.json."},
}

// Doc returns the documentation of a code.
func (c Code) Doc() (CodeDoc, bool) {
	for _, d := range Codes {
		if d.Code == c {
			return d, true
		}
	}
	return CodeDoc{}, false
}
