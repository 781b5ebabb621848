package natsserver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Role is the role that a credential authorizes.
type Role string

// The roles of the pipeline's own processes and of people. An agent has no role. The role of a sentinel group is
// SentinelRole(group).
const (
	RoleSetup    Role = "setup"    // creates the streams; only `lazaret up` uses it
	RoleIngest   Role = "ingest"   // the stage ingest
	RoleArbiter  Role = "arbiter"  // the stage arbiter
	RoleAuditor  Role = "auditor"  // the stage auditor
	RoleFront    Role = "front"    // publishes proposals on behalf of callers
	RoleJoint    Role = "joint"    // publishes the joint frames of a process that runs all stages
	RoleFeed     Role = "feed"     // reads the ledger once for all stages of a process
	RoleService  Role = "service"  // answers requests; publishes only answers
	RoleOperator Role = "operator" // for people
	RoleApprover Role = "approver"
	// RoleRetention trims the streams, and publishes entries about that to the ledger. No other credential can remove
	// ledger entries.
	RoleRetention Role = "retention"
	// RoleReplicas may change the number of replicas of the streams in a cluster. RewriteReplicas needs it.
	RoleReplicas Role = "replicas"
	RoleReplay   Role = "replay" // replays recorded sessions in synthetic projects
	// RoleViewer is for dashboards, exporters and people who only read. It may read the ledger, the live feed, beliefs
	// and holds. It may change nothing.
	RoleViewer Role = "viewer"
)

// SentinelRole returns the role of a sentinel group.
func SentinelRole(group string) Role { return Role(streams.SentinelStage(group)) }

// notifyTag is the prefix of the name of the role of a notification route. The route's consumer has the same name as
// the role.
const notifyTag = "notify-"

// NotifyRole returns the role of a notification route.
func NotifyRole(route string) Role { return Role(notifyTag + route) }

// viewerTag is the prefix of the name of the role of a viewer of one project. The viewer's consumer has the same name
// as the role.
const viewerTag = "viewer-"

// ViewerOf returns the role of a viewer of one project.
func ViewerOf(project string) Role { return Role(viewerTag + project) }

// InboxPrefix returns the prefix of the inboxes that a role uses for replies. Each credential has an inbox prefix of
// its own, so that no other credential can read the replies. Clients must be configured with this prefix
// (`--inbox-prefix`, or inbox_prefix in the context of the nats CLI).
func (r Role) InboxPrefix() string { return "_INBOX_LZ." + string(r) }

// AgentInbox returns the prefix of the inboxes that an agent's credential uses for replies.
func AgentInbox(project, agent string) string { return "_INBOX." + project + "." + agent }

// perms holds the permissions of a credential.
type perms struct {
	pub, sub []string
	// answers allows the credential to publish one reply to the reply subject of each message that it receives, within
	// answerWithin. This is safe, because only operators can publish to the subjects on which such a credential
	// receives requests.
	answers bool
}

func (p perms) jwt() jwt.Permissions {
	out := jwt.Permissions{Pub: jwt.Permission{Allow: p.pub}, Sub: jwt.Permission{Allow: p.sub}}
	if p.answers {
		out.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: answerWithin}
	}
	return out
}

// answerWithin is the time in which a stage must answer a status request.
const answerWithin = 5 * time.Second

// status allows the credential of a stage to answer status requests.
func (p *perms) status() {
	p.sub = append(p.sub, streams.StatusSubject)
	p.answers = true
}

// read allows a credential to read a stream with ordered consumers.
func (p *perms) read(stream string) {
	p.pub = append(p.pub,
		"$JS.API.STREAM.INFO."+stream,
		"$JS.API.STREAM.MSG.GET."+stream,
		"$JS.API.DIRECT.GET."+stream,
		"$JS.API.DIRECT.GET."+stream+".>",
		"$JS.API.CONSUMER.CREATE."+stream,
		"$JS.API.CONSUMER.CREATE."+stream+".>",
		"$JS.API.CONSUMER.INFO."+stream+".>",
		"$JS.API.CONSUMER.DELETE."+stream+".>",
		"$JS.API.CONSUMER.MSG.NEXT."+stream+".>",
	)
}

// viewed are the queries that viewers may send to the stages.
var viewed = []string{"beliefs", "active", "lineage", "pinpoint", "holds", "calibration"}

// permissions returns the permissions of a role.
func (r Role) permissions() (perms, error) {
	p := perms{sub: []string{r.InboxPrefix() + ".>"}}
	switch r {
	case RoleSetup:
		p.pub = []string{"$JS.API.INFO"}
		for _, s := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
			p.pub = append(p.pub, "$JS.API.STREAM.INFO."+s, "$JS.API.STREAM.CREATE."+s)
		}
	case RoleReplicas:
		for _, s := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
			p.pub = append(p.pub, "$JS.API.STREAM.INFO."+s, "$JS.API.STREAM.UPDATE."+s, "$JS.API.STREAM.LEADER.STEPDOWN."+s)
		}
	case RoleIngest:
		p.status()
		p.read(streams.IntakeStream)
		p.read(streams.LedgerStream)
		p.pub = append(p.pub, streams.LedgerStageFilter(streams.StageIngest), "lz.live.*.rejected", "lz.live.*.rejected.*",
			"lz.live.*.incident.>", "lz.live.*.rollback.*",
			"$JS.API.STREAM.PURGE."+streams.IntakeStream, "$JS.API.STREAM.MSG.DELETE."+streams.IntakeStream)
	case RoleArbiter:
		p.status()
		p.read(streams.LedgerStream)
		p.pub = append(p.pub, streams.LedgerStageFilter(streams.StageArbiter), "lz.live.*.verdict.>", "lz.live.*.hold.>",
			"lz.live.*.alert.>", "lz.live.*.incident")
	case RoleAuditor:
		p.status()
		p.read(streams.LedgerStream)
		p.pub = append(p.pub, "lz.live."+streams.SystemProject+".checkpoint", "lz.live."+streams.SystemProject+".incident")
	case RoleJoint:
		p.pub = append(p.pub, streams.LedgerStageFilter(streams.StageJoint), "$JS.API.STREAM.MSG.GET."+streams.LedgerStream)
	case RoleFeed:
		p.read(streams.LedgerStream)
	case RoleFront:
		p.read(streams.LedgerStream)
		p.pub = append(p.pub, "lz.in.>", "lz.ctl.*")
	case RoleService:
		// Ingest, the front and the auditor answer requests with this credential. It can publish only to inboxes, and
		// to the subjects that nats-server makes for the answers to another account (_R_). So a caller cannot make it
		// publish elsewhere by the reply subject of a request.
		p.pub = []string{"_INBOX.>", "_INBOX_LZ.>", "_R_.>"}
		p.sub = append(p.sub, "lz.svc.>", "$SRV.>")
	case RoleOperator:
		p.read(streams.LedgerStream)
		p.read(streams.LiveStream)
		p.pub = append(p.pub, "$JS.API.STREAM.INFO."+streams.IntakeStream, "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST",
			"$JS.API.INFO",
			"lz.ctl.*", "lz.svc.query.>", "lz.svc.resolve.>", "lz.svc.prove.>", "$SRV.>")
		p.sub = append(p.sub, "lz.live.>")
	case RoleViewer:
		// A viewer may not create consumers. A push consumer delivers messages to any subject that its creator names,
		// even if the creator may not publish there. So it could deliver to another credential's inbox.
		for _, st := range []string{streams.LedgerStream, streams.LiveStream} {
			p.pub = append(p.pub, "$JS.API.STREAM.INFO."+st, "$JS.API.STREAM.MSG.GET."+st, "$JS.API.DIRECT.GET."+st,
				"$JS.API.DIRECT.GET."+st+".>")
		}
		for _, what := range viewed {
			p.pub = append(p.pub, "lz.svc.query."+what+".*")
		}
		p.sub = append(p.sub, "lz.live.>")
	case RoleReplay:
		a := streams.ReplayAgent
		p.pub = []string{"lz.in.*." + a + ".*", "lz.in.*." + a + ".*.*", "lz.svc.decide.*." + a, "lz.svc.recall.*." + a,
			"lz.svc.gate.*." + a, "lz.svc.remember.*." + a + ".*", "lz.svc.observe.*." + a + ".*"}
	case RoleRetention:
		p.read(streams.LedgerStream)
		p.read(streams.LiveStream)
		p.pub = append(p.pub, "$JS.API.STREAM.INFO."+streams.IntakeStream,
			"$JS.API.STREAM.MSG.DELETE."+streams.LedgerStream, "$JS.API.STREAM.MSG.DELETE."+streams.LiveStream,
			"$JS.API.STREAM.PURGE."+streams.LedgerStream, "$JS.API.STREAM.UPDATE."+streams.LedgerStream, "lz.ctl.*",
			streams.LedgerStageFilter(streams.StageRetention),
			streams.EraseSubject)
	case RoleApprover:
		p.read(streams.LiveStream)
		p.pub = append(p.pub, "lz.svc.resolve.>", "lz.svc.query.holds.*")
		p.sub = append(p.sub, "lz.live.*.hold.>")
	default:
		return r.tagged(p)
	}
	return p, nil
}

// tagged adds the permissions of a role that is made for one notification route, one project or one sentinel group. The
// role's name ends with the name of this route, project or group.
func (r Role) tagged(p perms) (perms, error) {
	if route, ok := strings.CutPrefix(string(r), notifyTag); ok && streams.ValidID(route) {
		// A notification route reads the ledger, and fetches from its own consumer. It may not create consumers,
		// because a push consumer could deliver messages to another credential's inbox.
		st := streams.LedgerStream
		p.pub = append(p.pub, "$JS.API.STREAM.INFO."+st, "$JS.API.DIRECT.GET."+st, "$JS.API.CONSUMER.INFO."+st+"."+string(r),
			"$JS.API.CONSUMER.MSG.NEXT."+st+"."+string(r), "$JS.ACK."+st+"."+string(r)+".>")
		return p, nil
	}
	if project, ok := strings.CutPrefix(string(r), viewerTag); ok && streams.ValidID(project) {
		// A viewer of one project fetches from its own consumer, which has only this project. It may not read the
		// stream, which has all projects.
		st := streams.LiveStream
		p.pub = append(p.pub, "$JS.API.CONSUMER.INFO."+st+"."+string(r),
			"$JS.API.CONSUMER.MSG.NEXT."+st+"."+string(r), "$JS.ACK."+st+"."+string(r)+".>")
		p.sub = append(p.sub, streams.LivePrefix+project+".>")
		return p, nil
	}
	group, ok := streams.SentinelGroup(string(r))
	if !ok || !streams.ValidID(group) {
		return p, fmt.Errorf("unknown role %q", r)
	}
	p.status()
	p.read(streams.LedgerStream)
	p.pub = append(p.pub, streams.LedgerStageFilter(string(r)), "lz.live.*.alert.>")
	return p, nil
}

// Agent is the project, name and rights of an agent's credential.
type Agent struct {
	Project string `json:"project"`
	Name    string `json:"name"`
	// Origins are the origins with which the credential may publish content. The credential of a user interface has the
	// origin user. The credential of a program that runs tools has the external origins. If a host has both kinds,
	// Lazaret trusts it to name the right origin.
	Origins []beliefs.Origin `json:"origins"`
	// Kinds are the kinds of events that the credential may publish. If it is empty, it may publish all kinds.
	Kinds []streams.Kind `json:"kinds,omitempty"`
}

// services are the services that publish events of a kind for an agent.
var services = map[streams.Kind][]streams.Service{streams.KindObs: {streams.SvcObserve},
	streams.KindMem: {streams.SvcRemember}, streams.KindAct: {streams.SvcDecide},
	streams.KindRecall: {streams.SvcRecall, streams.SvcGate}}

func (a Agent) permissions() (perms, error) {
	inbox := AgentInbox(a.Project, a.Name)
	p := perms{sub: []string{inbox + ".>"}}
	if len(a.Origins) == 0 {
		return p, fmt.Errorf("agent %s needs at least one origin of %v", a.Name, beliefs.Origins())
	}
	kinds := a.Kinds
	if len(kinds) == 0 {
		kinds = streams.Kinds
	}
	var wrong error
	add := func(s string, err error) {
		p.pub = append(p.pub, s)
		if wrong == nil {
			wrong = err
		}
	}
	for _, k := range kinds {
		origins := []beliefs.Origin{""}
		if k.HasOrigin() {
			origins = a.Origins
		}
		for _, o := range origins {
			add(streams.IntakeSubject(a.Project, a.Name, k, o))
			for _, svc := range services[k] {
				add(streams.ServiceSubject(svc, a.Project, a.Name, o))
			}
		}
	}
	if add(streams.ServiceSubject(streams.SvcProve, a.Project, a.Name, "")); wrong != nil {
		return p, wrong
	}
	slices.Sort(p.pub)
	// An agent may subscribe to messages about its own holds. It may not subscribe to alerts, because they would show
	// an attacker which wording is not detected.
	hold, err := streams.LiveSubject(a.Project, "hold", a.Name)
	if err != nil {
		return p, err
	}
	// An agent may also subscribe to the messages about its own events that were rejected.
	rejected, err := streams.LiveSubject(a.Project, "rejected", a.Name)
	if err != nil {
		return p, err
	}
	p.sub = append(p.sub, hold+".>", rejected)
	for _, s := range append(slices.Clone(p.pub), p.sub...) {
		if strings.ContainsAny(strings.TrimSuffix(s, ".>"), "*>") {
			return p, fmt.Errorf("permission %q of agent %s has a wildcard, but must name one subject", s, a.Name)
		}
	}
	return p, nil
}
