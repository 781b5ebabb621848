package streams

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"lazaret/pkg/beliefs"
)

// Partitions is the number of partitions. It cannot change, because the partition is part of every stored subject.
const Partitions = 16

// SyntheticPrefix begins the names of synthetic projects (replays, probes). In a synthetic project, the time of an
// event is the one in the event's body. A synthetic project does not affect other projects. No real project may use the
// prefix.
const SyntheticPrefix = "syn-"

// SystemProject is the project of the pipeline's own messages: operator commands in the
// ledger, checkpoints on the live feed. No client can publish under it.
const SystemProject = "_"

// ReplayAgent is the name of the agent in replays of recorded sessions. The agent's credential is valid in every
// synthetic project and in no other project.
const ReplayAgent = "replayed"

// IsSynthetic reports whether a project is synthetic, so that the time of its events is the one in
// their bodies.
func IsSynthetic(project string) bool { return strings.HasPrefix(project, SyntheticPrefix) }

// Prefixes of subjects. All subjects of Lazaret on a NATS account begin with "lz.".
const (
	IntakePrefix  = "lz.in."
	ControlPrefix = "lz.ctl."
	LedgerPrefix  = "lz.ledger."
	LivePrefix    = "lz.live."
	servicePrefix = "lz.svc."
)

// IntakeSubject returns the subject to which a client publishes an event:
// lz.in.<project>.<agent>.<kind>, followed by .<origin> if the kind has one.
func IntakeSubject(project, agent string, kind Kind, origin beliefs.Origin) (string, error) {
	if err := checkPrincipal(project, agent); err != nil {
		return "", err
	}
	if !kind.valid() {
		return "", fmt.Errorf("unknown event kind %q: use one of %v", kind, Kinds)
	}
	s := IntakePrefix + project + "." + agent + "." + string(kind)
	if kind.HasOrigin() {
		if !origin.Valid() {
			return "", fmt.Errorf("unknown origin %q for kind %s: use one of %v", origin, kind, beliefs.Origins())
		}
		return s + "." + string(origin), nil
	}
	if origin != "" {
		return "", fmt.Errorf("kind %s carries no origin, got %q", kind, origin)
	}
	return s, nil
}

// IntakeFilter returns the filter for all events of clients in one partition.
func IntakeFilter(partition int) string { return IntakePrefix + strconv.Itoa(partition) + ".>" }

// Address is the sender and kind of an event. It comes from the event's stored intake subject, never from its body.
// NATS permissions allowed the sender's credential to publish on this subject, so the address can be trusted.
type Address struct {
	Partition int
	Project   string
	Agent     string
	Kind      Kind
	Origin    beliefs.Origin // empty for kinds without an origin
}

// ParseIntake parses a stored intake subject. For an unknown kind or an illegal name it returns an error together with
// the parts of the address that could be read, so that the entry for the rejected message can name the sender.
func ParseIntake(subject string) (Address, error) {
	if rest, ok := strings.CutPrefix(subject, ControlPrefix); ok {
		p, err := parsePartition(rest)
		return Address{Partition: p, Kind: KindCtl}, err
	}
	var a Address
	rest, ok := strings.CutPrefix(subject, IntakePrefix)
	if !ok {
		return a, fmt.Errorf("subject %q is not below %q", subject, strings.TrimSuffix(IntakePrefix, "."))
	}
	tok := strings.Split(rest, ".")
	p, err := parsePartition(tok[0])
	if err != nil {
		return a, fmt.Errorf("subject %q: %w", subject, err)
	}
	a.Partition = p
	if len(tok) < 4 {
		return a, fmt.Errorf("subject %q has %d tokens after the partition, want project.agent.kind[.origin]", subject,
			len(tok)-1)
	}
	a.Project, a.Agent, a.Kind = tok[1], tok[2], Kind(tok[3])
	if err := checkPrincipal(a.Project, a.Agent); err != nil {
		return a, err
	}
	if !a.Kind.valid() {
		return a, fmt.Errorf("unknown event kind %q: use one of %v", a.Kind, Kinds)
	}
	switch {
	case a.Kind.HasOrigin() && len(tok) == 5:
		a.Origin = beliefs.Origin(tok[4])
		if !a.Origin.Valid() {
			return a, fmt.Errorf("unknown origin %q: use one of %v", tok[4], beliefs.Origins())
		}
	case a.Kind.HasOrigin():
		return a, fmt.Errorf("kind %s needs exactly one origin token after it", a.Kind)
	case len(tok) != 4:
		return a, fmt.Errorf("kind %s takes no further tokens, got %q", a.Kind, strings.Join(tok[4:], "."))
	}
	return a, nil
}

// PartitionOf returns the partition of a project. The server assigns the same one by the subject transform
// {{partition(16,1)}}, which computes FNV-1a over the name.
func PartitionOf(project string) int {
	h := fnv.New32a()
	h.Write([]byte(project))
	return int(h.Sum32() % Partitions)
}

// ControlSubject returns the subject to which operators publish signed commands for a partition.
func ControlSubject(partition int) string { return ControlPrefix + strconv.Itoa(partition) }

// Stage names in ledger subjects. SentinelStage gives the stage name of a sentinel group.
const (
	StageIngest  = "ingest"
	StageArbiter = "arbiter"
	// StageRetention is the name under which the process that trims the ledger writes its entries.
	// It is not a stage of the pipeline.
	StageRetention = "retention"
	// StageJoint takes the place of a stage's name in the subject of joint frames. It is not a stage. The entries of a
	// joint frame belong to several stages.
	StageJoint  = "joint"
	sentinelTag = "sentinel-"
)

// SentinelStage returns the stage name of a sentinel group.
func SentinelStage(group string) string { return sentinelTag + group }

// SentinelGroup returns the name of the sentinel group to which a stage name belongs. For a stage that is not a
// sentinel group, ok is false.
func SentinelGroup(stage string) (string, bool) { return strings.CutPrefix(stage, sentinelTag) }

// LedgerSubject returns the subject to which a stage writes its entries in a partition.
func LedgerSubject(partition int, stage string) string {
	return LedgerPrefix + strconv.Itoa(partition) + "." + stage
}

// LedgerFilter returns the filter for the entries of every stage in one partition.
func LedgerFilter(partition int) string { return LedgerSubject(partition, "*") }

// LedgerStageFilter returns the filter for the entries of one stage in every partition.
func LedgerStageFilter(stage string) string { return LedgerPrefix + "*." + stage }

// StageFilters returns the filters for all messages with entries of a stage. That includes joint frames, which also
// have entries of other stages.
func StageFilters(stage string) []string {
	return []string{LedgerStageFilter(stage), LedgerStageFilter(StageJoint)}
}

// StageSubjects returns the subjects of all messages with entries of a stage in a partition. That includes the subject
// of joint frames, which also have entries of other stages.
func StageSubjects(partition int, stage string) []string {
	return []string{LedgerSubject(partition, stage), LedgerSubject(partition, StageJoint)}
}

// ParseLedger splits a ledger subject into partition and stage.
func ParseLedger(subject string) (partition int, stage string, err error) {
	rest, ok := strings.CutPrefix(subject, LedgerPrefix)
	if !ok {
		return 0, "", fmt.Errorf("subject %q is not below %q", subject, strings.TrimSuffix(LedgerPrefix, "."))
	}
	p, stage, ok := strings.Cut(rest, ".")
	if !ok || !ValidID(stage) {
		return 0, "", fmt.Errorf("subject %q does not name a stage", subject)
	}
	if partition, err = parsePartition(p); err != nil {
		return 0, "", fmt.Errorf("subject %q: %w", subject, err)
	}
	return partition, stage, nil
}

// LiveSubject returns lz.live.<project>.<token...>. It returns an error if a token is not an identifier; for example, a
// rule id with a dot is not one.
func LiveSubject(project string, tokens ...string) (string, error) {
	if err := CheckID("project", project); err != nil {
		return "", err
	}
	for _, t := range tokens {
		if err := CheckID("live subject token", t); err != nil {
			return "", err
		}
	}
	return LivePrefix + project + "." + strings.Join(tokens, "."), nil
}

// Service is the name of a request service, a token of its subject.
type Service string

// The request services.
const (
	SvcDecide   Service = "decide"
	SvcRemember Service = "remember"
	SvcRecall   Service = "recall"
	SvcGate     Service = "gate"    // a recall with candidates of another store
	SvcResolve  Service = "resolve" // a signed resolution, see ResolveSubject
	SvcProve    Service = "prove"   // a proof that an entry is in the audit log
	SvcObserve  Service = "observe" // an observation, answered once it is in the ledger
)

// QuerySubject returns the subject on which operators ask a daemon about the state of one
// partition: lz.svc.query.<what>.<partition>.
func QuerySubject(what string, partition int) string {
	return servicePrefix + "query." + what + "." + strconv.Itoa(partition)
}

// StatusSubject is the subject on which operators ask for the progress of every stage. Every process of the pipeline
// answers.
const StatusSubject = servicePrefix + "query.stages"

// ResolveSubject returns the subject for a signed resolution of a hold.
func ResolveSubject(project, hold string) (string, error) {
	if err := checkPrincipal(project, hold); err != nil {
		return "", err
	}
	return servicePrefix + string(SvcResolve) + "." + project + "." + hold, nil
}

// ParseResolve parses a subject that ResolveSubject made.
func ParseResolve(subject string) (project, hold string, err error) {
	rest, ok := strings.CutPrefix(subject, servicePrefix+string(SvcResolve)+".")
	project, hold, two := strings.Cut(rest, ".")
	if !ok || !two {
		return "", "", fmt.Errorf("subject %q does not name project and hold", subject)
	}
	return project, hold, checkPrincipal(project, hold)
}

// ServiceSubject returns the subject of a client's request: lz.svc.<service>.<project>.<agent>, followed by .<origin>
// for remember and observe. The origin is in the subject, and not in the payload, so that NATS permissions can limit a
// credential to certain origins.
func ServiceSubject(svc Service, project, agent string, origin beliefs.Origin) (string, error) {
	if err := checkPrincipal(project, agent); err != nil {
		return "", err
	}
	s := servicePrefix + string(svc) + "." + project + "." + agent
	if !svc.hasOrigin() {
		return s, nil
	}
	if !origin.Valid() {
		return "", fmt.Errorf("unknown origin %q: use one of %v", origin, beliefs.Origins())
	}
	return s + "." + string(origin), nil
}

func (svc Service) hasOrigin() bool { return svc == SvcRemember || svc == SvcObserve }

// ServiceFilter returns the filter for all clients' requests to svc.
func ServiceFilter(svc Service) string {
	if svc.hasOrigin() {
		return servicePrefix + string(svc) + ".*.*.*"
	}
	return servicePrefix + string(svc) + ".*.*"
}

// ParseService parses the subject of a request and returns the service and the address of the
// caller.
func ParseService(subject string) (Service, Address, error) {
	var a Address
	rest, ok := strings.CutPrefix(subject, servicePrefix)
	if !ok {
		return "", a, fmt.Errorf("subject %q is not below %q", subject, strings.TrimSuffix(servicePrefix, "."))
	}
	tok := strings.Split(rest, ".")
	if len(tok) < 3 {
		return "", a, fmt.Errorf("subject %q does not name service, project and agent", subject)
	}
	svc := Service(tok[0])
	a.Project, a.Agent = tok[1], tok[2]
	if err := checkPrincipal(a.Project, a.Agent); err != nil {
		return svc, a, err
	}
	a.Partition = PartitionOf(a.Project)
	want := 3
	switch svc {
	case SvcDecide:
		a.Kind = KindAct
	case SvcRecall, SvcGate:
		a.Kind = KindRecall
	case SvcRemember:
		a.Kind = KindMem
		want = 4
	case SvcObserve:
		a.Kind = KindObs
		want = 4
	case SvcProve: // not an event, so no kind
	default:
		return svc, a, fmt.Errorf("unknown service %q", tok[0])
	}
	if len(tok) != want {
		return svc, a, fmt.Errorf("subject %q has %d tokens after %q, want %d", subject, len(tok), servicePrefix, want)
	}
	if want == 4 {
		a.Origin = beliefs.Origin(tok[3])
		if !a.Origin.Valid() {
			return svc, a, fmt.Errorf("unknown origin %q: use one of %v", tok[3], beliefs.Origins())
		}
	}
	return svc, a, nil
}

func checkPrincipal(project, agent string) error {
	if err := CheckID("project", project); err != nil {
		return err
	}
	if project == SystemProject {
		return fmt.Errorf("project %q is the pipeline's own", project)
	}
	if agent == ReplayAgent && !IsSynthetic(project) {
		return fmt.Errorf("agent %q may be used only in projects whose names start with %q", agent, SyntheticPrefix)
	}
	return CheckID("agent", agent)
}

func parsePartition(tok string) (int, error) {
	p, err := strconv.Atoi(tok)
	if err != nil || p < 0 || p >= Partitions || strconv.Itoa(p) != tok {
		return 0, fmt.Errorf("%q is not a partition (0 to %d)", tok, Partitions-1)
	}
	return p, nil
}
