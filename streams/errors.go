package streams

// Code is a stable error code, used in the answers of services and in rejected entries. Codes are defined only in the
// table below. docs/errors.md is generated from it.
type Code string

// The codes, by range. 1xx: a fault of the event itself. 2xx: the pipeline could not answer. 3xx: reasons for a
// verdict. 4xx: operators' commands. 5xx: proofs. 6xx: HTTP.
const (
	CodeMalformed   Code = "LZ101"
	CodeTooLarge    Code = "LZ102"
	CodeUnknownKind Code = "LZ103"
	CodeBadSubject  Code = "LZ104"
	CodeInvalid     Code = "LZ105"
	CodeTimeTravel  Code = "LZ106"
	CodeNotEvent    Code = "LZ107"
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
	CodeCredential  Code = "LZ209"

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
	CodeSource      Code = "LZ325"

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

// CodeDoc documents a code: what it means, and what the person or program that gets it should do.
type CodeDoc struct {
	Code    Code   `json:"code"`
	Title   string `json:"title"`
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
}

// Codes lists every code in order.
var Codes = []CodeDoc{
	{CodeMalformed, "malformed body",
		"The body is not valid JSON of the event's kind.",
		"Correct the body at the place that the message names. If the rejection of an observation has unseen, its session " +
			"is held (LZ306) until the observation is published again in valid form or the session is started again."},
	{CodeTooLarge, "event too large",
		"The body exceeds the size limit (1 MiB by default).",
		"Split the content into several observations with the same call."},
	{CodeUnknownKind, "unknown kind", "The subject names no known event kind.",
		"Use one of the kinds that docs/protocol.md lists, such as obs or act."},
	{CodeBadSubject, "bad subject", "The subject has the wrong number of tokens, an illegal name or an unknown origin.",
		"Build subjects as lz.in.<project>.<agent>.<kind>[.<origin>]."},
	{CodeInvalid, "invalid event", "A field is missing, out of range or illegal.",
		"Fix the field that the message names."},
	{CodeTimeTravel, "time runs backwards",
		"An event of a synthetic project has an earlier time than the event before it.",
		"Send synthetic events in order of time."},
	{CodeNotEvent, "not an event",
		"The body is an acknowledgement or another answer of JetStream, or a ledger entry. A client had it sent to this " +
			"intake subject as a reply.",
		"Find the client that uses this subject as its reply subject. If none of yours does, treat it as an attack."},
	{CodeUncited, "decision without citation",
		"A decision neither cites beliefs nor sets cites_none, or cites only unknown beliefs. The policy says " +
			"whether it is refused or recorded with an alert.",
		"Cite the ids of the beliefs that a recall returned, or set cites_none."},
	{CodeEntrySize, "entry too large",
		"The event is within the size limit, but its ledger entry would exceed the ledger's maximum message size. " +
			"The entry also contains the data that ingest derives from the event.",
		"Split the content into several events. If the pipeline made the entry without an event, report a bug and attach " +
			"the entry."},
	{CodeAgentFull, "agent has too much waiting",
		"The agent's waiting messages fill its share of the intake. The share is an eighth of the intake's bytes, unless " +
			"server init --intake-per-agent sets another one. The message was not kept; its rejection is in the ledger.",
		"Wait and send it again with the same id. If it is an observation, its session is held (LZ306) until then. " +
			"Operators: find out why the agent sends so much."},
	{CodeTimeout, "no verdict in time",
		"No verdict arrived within the request's time. The proposal may be in the ledger.",
		"Treat as hold. Send it again with the same id: the answer is the verdict on the same proposal."},
	{CodeIntakeFull, "intake refused",
		"The intake stream is full, for this agent or as a whole, or the server's disk is full. Nothing was stored.",
		"Treat as hold. Wait and send it again with the same id. If the reason names the disk, free some space: " +
			"lazaret doctor shows how much is free."},
	{CodeUnavailable, "pipeline unavailable",
		"The event could not be stored in the intake.",
		"Treat as hold. Send it again with the same id."},
	{CodeBadReply, "bad reply subject", "The request's reply subject is not an inbox.",
		"Use a request function of your NATS client, with the inbox prefix of your credential."},
	{CodeShedding, "too many requests",
		"Too many requests wait for a verdict at this process of the arbiter.",
		"Treat as hold. Wait and send it again with the same id."},
	{CodePending, "verdict pending",
		"The proposal is in the ledger and waits for sentinel groups. The policy gives them until the reply's " +
			"`until`. No group has refused it yet, and not all have cleared it.",
		"Treat as hold. Send it again with the same id: the answer is the verdict on the same proposal."},
	{CodeReplySize, "answer too large",
		"The verdict is in the ledger, but the reply exceeds the server's maximum message size (max_payload).",
		"Treat as hold. Ask for less, with a smaller limit or fewer candidates, under a new id."},
	{CodeTaken, "reply to another proposal",
		"The reply is for a different proposal than the one that was sent.",
		"Treat as hold. Propose it under a new id. Generate ids that do not repeat after a restart of the client."},
	{CodeCredential, "credential refused",
		"The NATS server refuses the credential: it was revoked or has expired, or it belongs to another server.",
		"Treat as hold. Do not send it again with this credential. Operators: lazaret agent ls --all shows the state of " +
			"the credential, lazaret agent rotate NAME replaces it. The agent's token for the gateway stays valid, unless " +
			"lazaret agent revoke ended it: then lazaret agent token new makes another one."},
	{CodeNoPolicy, "no policy in force",
		"No signed policy has been activated yet, so nothing can be allowed.",
		"Activate one: lazaret policy activate."},
	{CodeUnmatched, "no policy entry matches",
		"The policy has no entry for this tool, so the tool is not allowed.",
		"Add the tool to the policy, or run it in learn mode first."},
	{CodeFloor, "level requires a person",
		"The action has level L4, which is held, or L5, which is denied, or a policy entry has `require`. The text says " +
			"where the level comes from: a policy entry, the tool's annotations, or the agent's own declaration.",
		"Wait for an approval, or use another tool."},
	{CodeRule, "a sentinel rule fired",
		"A rule asks for hold or deny. The reason names the rule.",
		"Read the alert. Do not try again in other words."},
	{CodeSilent, "a sentinel group was silent",
		"A required sentinel group had not answered by its deadline, or its answer names another rule set than the " +
			"required one. The reason names the group.",
		"Wait for an approval. Operators: lazaret doctor says whether the group runs and how far it is behind."},
	{CodeUnseen, "session has unseen input",
		"An observation of this session was rejected, so the sentinels have not judged what the agent saw. Or the " +
			"session " +
			"was silent for so long that its user's words have expired.",
		"If the words expired, run lazaret session start. Otherwise publish the observation that the reason names again " +
			"in valid form, with the same id and origin. Or give the agent a context without this observation and run " +
			"lazaret session start. If the rejected observation named no session, all sessions of the agent are held, so a " +
			"new session id does not help. Open holds still need a person."},
	{CodeHost, "the host's own verdict",
		"The host program asked for at least this verdict.",
		"None."},
	{CodeRestored, "intake is older than the proposal",
		"The proposal names in `after` a sequence that this intake has not reached yet: the stream was created again " +
			"or restored from a backup.",
		"Operators: check the stream. A new session is not affected."},
	{CodeBelief, "belief not usable",
		"The action cites a belief that is withheld, contradicted or unknown. Or there is a finding on a belief that a " +
			"recall found: the recall leaves this belief out.",
		"Recall again and decide with the beliefs that are returned. If the memory is right, have a person approve the " +
			"hold of its write, or remember it again."},
	{CodeHoldBudget, "too many open holds",
		"The agent has as many open holds as the policy allows, of this tool in this session or of all tools together. " +
			"So a new hold becomes a deny.",
		"Have the open holds resolved first."},
	{CodeLearn, "learn mode",
		"The policy is in learn mode and records what its verdict would have been.",
		"None: the verdict is not enforced."},
	{CodeContextOnly, "belief is context only",
		"The action cites a belief that may be used as context only, not for tool actions.",
		"Have a person confirm the belief."},
	{CodeExpired, "hold expired",
		"Nobody resolved the hold in time. An expired hold is not a denial.",
		"If the action is still wanted, propose it again under a new id."},
	{CodeForgotten, "verdict is not kept",
		"The arbiter does not have the verdict on this id: the proposal is too old, or it was refused. The ledger may " +
			"still have the verdict.",
		"Treat as hold. Propose it again under a new id."},
	{CodeApproved, "approved",
		"A person released the hold with a signed approval. The verdict is allow.",
		"Carry out the action once, exactly as proposed. A changed action is a new proposal."},
	{CodeRejected, "rejected",
		"A person rejected the hold. The verdict is deny, with the person's reason.",
		"Do not propose the same again. Choose another way, or ask the person."},
	{CodeCancelled, "hold cancelled",
		"The agent withdrew the proposal or replaced it by a changed one.",
		"None, or wait for the verdict on the changed proposal."},
	{CodeStanding, "standing permission",
		"The action would be held only because of its level. The signed policy has a standing permission for it, with an " +
			"end " +
			"date.",
		"None."},
	{CodeDelegated, "delegated",
		"The action would be held only because of its level. The signed policy allows it by delegation. The text names " +
			"the ground (the policy's condition that was met) and the evidence. A ground need not show that the user wants " +
			"this action: " +
			"nothing-foreign allows every action, as long as the session has only words of the user and the operator.",
		"None. If the ground is too wide for such actions, give them `require: hold` in the policy, or change the ground."},
	{CodeSource, "approved source",
		"The action would be held. But it carries out what a source says, and a person approved this source for this " +
			"session with a signature. The text names the signature and how many actions it has covered.",
		"None."},
	{CodeProtected, "protected resource",
		"The action's arguments name a resource that the policy protects.",
		"Use another resource, or have the operator change the policy."},
	{CodeEgress, "destination not admitted",
		"The action would reach a private, link-local or metadata address, an address that the policy denies, or " +
			"one that is not on its allow-list. Or its destination cannot be determined.",
		"Use an allowed destination, or have the operator add it to egress in the policy."},
	{CodeHoldRate, "too many holds in a minute",
		"The agent had as many actions held within the last minute as the policy allows, so a new hold becomes a " +
			"deny.",
		"Slow down, and find out why so many actions are held."},
	{CodeOver, "over-confident class",
		"In this class (the agent's actions under one policy entry), fewer actions succeeded than the agent's stated " +
			"confidence said, by more than chance explains. Such actions are held until this changes.",
		"Wait for an approval. Operators: lazaret calibration ls."},
	{CodeMismatch, "outcome without its action",
		"An executor (the program that carries out actions) reported an outcome for an action that was never released, " +
			"or with another digest than that of the released action.",
		"Find out what the executor carried out, and stop the executor."},
	{CodeFallen, "a cited belief became unreliable",
		"An earlier decision or action cites a belief that has since been contradicted, superseded or quarantined.",
		"Review the decision or action. The pipeline does not undo it."},
	{CodeIntegrity, "belief differs from the ledger",
		"A belief that was to be served differs in content, origin or namespace from its entry in the ledger. It is " +
			"withheld.",
		"Operators: a stage's files were changed, by a person or a faulty disk. Stop the stage, investigate, and " +
			"rebuild its state from the ledger."},
	{CodeRests, "alert on what the action depends on",
		"An alert applies to the action indirectly: it names a belief that was recalled in the action's session, or the " +
			"source of the action's arguments. The alert may be from another time, session or agent. The path names each step.",
		"Read the alert at the end of the path."},
	{CodeStaged, "memory is staged",
		"The write is recorded, but used as context at most, until a person confirms it or independent stronger " +
			"evidence arrives. The text says why.",
		"Have a person confirm it: lazaret beliefs confirm."},
	{CodeTombstone, "value was refused before",
		"The write repeats, in the same or other words, content that was refused or quarantined. The text names the " +
			"earlier write.",
		"Do not write it again in other words. If the write is held, a person who wants the memory can approve the " +
			"hold. Writes of the user and the operator are not compared."},
	{CodeProcedure, "procedure without a signature",
		"A skill is served and followed only after a person has signed exactly its bytes.",
		"Have a person approve the hold, or confirm the belief."},
	{CodeSignature, "signature refused",
		"The command is unsigned, altered, or signed by a key that is not pinned with the role for this command.",
		"Sign with a pinned key that has this role."},
	{CodeCommand, "unknown command",
		"The signed statement is not a command that this version supports.",
		"Check the version of the tool that signed it."},
	{CodeBundle, "bundle refused",
		"A rule set or policy does not load, or parts of the published bundle are missing.",
		"Run lazaret rules check. The rule set or policy in force stays in force."},
	{CodeApproval, "approval refused",
		"A signed decision on a hold failed a check. The text and an alert name the check. The hold is unchanged.",
		"Look at the hold again (lazaret holds show) and sign again, with a pinned key that has the required role."},
	{CodeBehind, "group not ready",
		"The policy requires a sentinel group that has not answered the latest decided proposals in this partition. " +
			"If the policy were in force, all proposals would be held until the group has caught up.",
		"Start the group, wait until it has caught up, and activate the policy again. If lazaret policy activate exits " +
			"with 2, nothing has changed. If it exits with 3, it names the partitions in which the policy is in force and " +
			"those that keep the earlier one: activate one of the two policies again."},
	{CodeLegalHold, "under legal hold",
		"The project, or a person whom the data is about, is under a legal hold, so the data cannot be forgotten.",
		"Release the hold first: lazaret audit legal-hold release."},
	{CodeConfirmation, "confirmation refused",
		"A signed attestation on a belief failed a check. The text and an alert name the check. The belief is " +
			"unchanged.",
		"Look at the belief again (lazaret beliefs show) and sign again, with a pinned key that has the required " +
			"role."},
	{CodeOrder, "order refused",
		"A signed order, for instance on an incident, failed a check. The text and an alert name the check. Nothing " +
			"changed.",
		"Look at the order's subject again (lazaret incident show) and sign again, with a pinned key that has the " +
			"required role."},
	{CodeHole, "ledger lacks entries",
		"Entries are missing from the ledger, and neither trimming nor a signed statement on forgetting explains " +
			"it. The stage stops before the missing entries.",
		"Run lazaret audit verify --ledger to see which entries are missing. Restore the ledger from a backup that " +
			"has them, or the stage's state from a snapshot that was taken after them (lazaret state restore STAGE)."},
	{CodeTrimmed, "ledger was trimmed",
		"One data subject cannot be forgotten: every stage would have to compute the project's state again without " +
			"this person's entries, and the entries that this needs have been trimmed.",
		"Forget the whole project (lazaret audit forget --subject PROJECT). Next time, forget a data subject before " +
			"trimming."},
	{CodeNoEntry, "no such entry",
		"The audit log has no such entry of the project. Or the payload was asked for, and the entry is not about an " +
			"event of this agent. The answer is the same for entries of other projects.",
		"Check the id. An event is in the log within a second after its verdict; ask again then."},
	{CodeUncovered, "not covered yet",
		"The entry is in the audit log, but no signed checkpoint covers it yet.",
		"Ask again in a second."},
	{CodeGone, "payload gone",
		"The entry's payload was forgotten, or this auditor never had it.",
		"Ask without the payload. The log can still prove that it has the entry."},
	{CodeToken, "token refused",
		"The HTTP request has no bearer token, or its token is unknown, expired or revoked.",
		"Make a token: lazaret agent token new."},
	{CodeForbidden, "not permitted",
		"The token's credential may not do this on the NATS server: it is for another origin, kind or feed.",
		"Use a token of a credential that has the permission, or have the operator make one."},
	{CodeNotHere, "no such resource",
		"The HTTP path is unknown, or the gateway cannot find the hold. It remembers a limited number of holds of proposals " +
			"that it forwarded since its start. It asks the arbiter about other holds, if its data folder has the credential " +
			"viewer. The arbiter does not return a hold that ended long ago, or that another agent has.",
		"Send the proposal again with the same id: the answer names the same hold."},
	{CodeRequest, "HTTP request refused",
		"The path does not accept the method, the content type, a query parameter or a header.",
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
