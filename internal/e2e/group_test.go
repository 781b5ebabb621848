package e2e

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// judge is a sentinel group as a third party could write it: it uses only NATS subjects, headers and JSON, and none of
// Lazaret's packages.
type judge struct {
	p    *pipeline
	js   jetstream.JetStream
	last uint64 // sequence of its last entry: the fence
	part int
}

const judgeDigest = "external:judge-v1"

// judged returns a pipeline with the group judge. groups is the list of groups that the policy requires. more are other
// changes of the policy, as in roomyPolicy.
func judged(t *testing.T, groups string, more ...string) (*pipeline, *judge) {
	t.Helper()
	p := newPipeline(t, embedded.Config{Policy: roomyPolicy(t, append([]string{"groups: [core]", "groups: " + groups},
		more...)...)})
	return p, newJudge(t, p, "judge")
}

func newJudge(t *testing.T, p *pipeline, group string) *judge {
	t.Helper()
	m, err := natsserver.OpenMinter(p.data)
	if err != nil {
		t.Fatal(err)
	}
	url, err := natsserver.ContextURL(p.data, "operator")
	if err != nil {
		t.Fatal(err)
	}
	r := natsserver.SentinelRole(group)
	if err := m.Install(natsserver.Grant{Name: string(r), Role: r, Lasts: natsserver.AgentExpires,
		Description: "a test's group"}, url, false); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(connect(t, p.data, string(r)))
	if err != nil {
		t.Fatal(err)
	}
	return &judge{p: p, js: js, part: streams.PartitionOf("demo")}
}

// publish adds an entry to the ledger on the subject of a group.
func (j *judge) publish(group, typ string, src uint64, body string) {
	j.p.t.Helper()
	salt := streams.NewSalt()
	ack, err := j.js.PublishMsg(j.p.ctx, &nats.Msg{
		Subject: fmt.Sprintf("lz.ledger.%d.sentinel-%s", j.part, group),
		Header: nats.Header{"Lz-Type": {typ}, "Lz-Project": {"demo"}, "Lz-Src": {strconv.FormatUint(src, 10)},
			"Lz-Salt":                             {hex.EncodeToString(salt[:])},
			"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(j.last, 10)}},
		Data: []byte(body),
	})
	if err != nil {
		j.p.t.Fatal(err)
	}
	j.last = ack.Sequence
}

// ask publishes an action without waiting for its verdict. It returns the ledger sequence of the action.
func (j *judge) ask(id, tool string) uint64 {
	j.p.t.Helper()
	j.p.publish("lz.in.demo.agent.act", fmt.Sprintf(`{"id":%q,"session":%q,"tool":%q}`, id, id, tool))
	var seq uint64
	natstest.Eventually(j.p.t, 10*time.Second, "the proposal in the ledger", func() bool {
		for _, e := range j.p.entries(streams.TypeAction) {
			if strings.Contains(string(e.Body), strconv.Quote(id)) {
				seq = e.Seq
			}
		}
		return seq != 0
	})
	return seq
}

// verdict waits until a proposal has n verdicts, and returns the last one.
func (j *judge) verdict(seq uint64, n int) *streams.VerdictEntry {
	j.p.t.Helper()
	var last *streams.VerdictEntry
	natstest.Eventually(j.p.t, 20*time.Second, fmt.Sprintf("verdict %d on entry %d", n, seq), func() bool {
		got := 0
		for _, e := range j.p.entries(streams.TypeVerdict) {
			v := new(streams.VerdictEntry)
			if err := streams.Unmarshal(e.Body, v); err != nil {
				j.p.t.Fatal(err)
			}
			if v.Proposal == seq {
				got, last = got+1, v
			}
		}
		return got >= n
	})
	return last
}

func assess(more string) string {
	return fmt.Sprintf(`{"group":"judge","digest":%q%s}`, judgeDigest, more)
}

func alert(effect, message string) string {
	return fmt.Sprintf(`{"id":"a1","rule":"judge","rule_digest":%q,"group":"judge","severity":"high","subject":{"kind":"action","id":"x"},`+
		`"project":"demo","message":%q,"effect":%q,"mode":"enforce","count":1,"time":"2026-11-21T10:15:00Z"}`, judgeDigest,
		message, effect)
}

func TestWhatAGroupOfSomebodyElsesSaysCanOnlyTighten(t *testing.T) {
	long(t)
	t.Parallel()
	p, j := judged(t, `[core, {name: judge, digest: "external:judge-v1", deadline: 1500ms}]`)
	for i, c := range []struct {
		what, tool, body string
		want             streams.Verdict
		silent           bool
		says             string
	}{
		{"allow", "read_file", assess(`,"verdict":"allow"`), streams.Allow, false, ""},
		{"hold", "read_file", assess(`,"verdict":"hold"`), streams.Hold, false, "asks for hold"},
		{"deny with its reason", "read_file", assess(`,"verdict":"deny","alerts":[` + alert("deny", "it stinks") + `]`),
			streams.Deny, false, "it stinks"},
		{"a verdict above its alerts", "read_file", assess(`,"verdict":"deny","alerts":[` + alert("hold", "it smells") +
			`]`), streams.Deny, false, "asks for deny"},
		{"an alert above its verdict", "read_file", assess(`,"verdict":"allow","alerts":[` + alert("deny", "no") + `]`),
			streams.Deny, false, "no"},
		{"an effect of a later version", "read_file", assess(`,"verdict":"allow","alerts":[` + alert("rot13", "x") + `]`),
			streams.Hold, false, "x"},
		{"an alert without effect", "read_file", assess(`,"verdict":"allow","alerts":[` + alert("alert", "fyi") + `]`),
			streams.Allow, false, ""},
		{"allow what the ladder holds", "send_email", assess(`,"verdict":"allow"`), streams.Hold, false, "L4"},
		{"allow what nobody knows", "frobnicate", assess(`,"verdict":"allow"`), streams.Hold, false, "otherwise"},
		{"no verdict", "read_file", assess(""), streams.Hold, true, "without a verdict"},
		{"a verdict that does not exist", "read_file", assess(`,"verdict":"ok"`), streams.Hold, true, "had not answered"},
		{"no JSON", "read_file", `verdict=allow`, streams.Hold, true, "had not answered"},
		{"the digest of another version", "read_file", `{"group":"judge","digest":"external:judge-v2","verdict":"allow"}`,
			streams.Hold, true, "judge-v2"},
		{"no digest", "read_file", `{"group":"judge","verdict":"allow"}`, streams.Hold, true, "without a digest"},
		{"another version denies", "read_file", `{"group":"judge","digest":"external:judge-v2","verdict":"deny"}`,
			streams.Deny, true, "asks for deny"},
	} {
		seq := j.ask(fmt.Sprint("q", i), c.tool)
		j.publish("judge", "assessment", seq, c.body)
		v := j.verdict(seq, 1)
		if v.Verdict != c.want || slices.Contains(v.Degraded, "judge") != c.silent {
			t.Errorf("%s: %s, degraded %v: %+v", c.what, v.Verdict, v.Degraded, v.Reasons)
		}
		if !strings.Contains(fmt.Sprintf("%+v", v.Reasons), c.says) {
			t.Errorf("%s: no reason says %q: %+v", c.what, c.says, v.Reasons)
		}
	}
	// A group answers three times. Its second answer is milder and must have no effect. Its third answer is stricter
	// and must have one.
	seq := j.ask("twice", "read_file")
	j.publish("judge", "assessment", seq, assess(`,"verdict":"hold"`))
	j.verdict(seq, 1)
	j.publish("judge", "assessment", seq, assess(`,"verdict":"allow"`))
	j.publish("judge", "assessment", seq, assess(`,"verdict":"deny"`))
	if v := j.verdict(seq, 2); v.Verdict != streams.Deny || !v.Late {
		t.Errorf("after a milder and a stricter answer: %+v", v)
	}
	if n := len(p.entries(streams.TypeVerdict)); n != 17 {
		t.Errorf("%d verdicts, want 17", n)
	}
}

func TestAGroupHasADeadlineOfItsOwn(t *testing.T) {
	_, j := judged(t, `[core, {name: judge, digest: "external:judge-v1", deadline: 4s}, {name: gone, deadline: 100ms}]`)
	began := time.Now()
	seq := j.ask("slow", "read_file")
	time.Sleep(time.Until(began.Add(time.Second)))
	j.publish("judge", "assessment", seq, assess(`,"verdict":"allow"`))
	v := j.verdict(seq, 1)
	// The verdict must come with the answer of judge. It must not wait for the group gone, which has been silent for
	// long.
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	if v.Verdict != streams.Hold || !slices.Equal(v.Degraded, []string{"gone"}) {
		t.Errorf("%s, degraded %v", v.Verdict, v.Degraded)
	}
}

func TestAGroupThatNobodyRequiresIsHeard(t *testing.T) {
	long(t)
	t.Parallel()
	_, j := judged(t, `[core, {name: last, digest: "external:v1", deadline: 2s}]`)
	seq := j.ask("early", "read_file")
	j.publish("judge", "assessment", seq, assess(`,"verdict":"deny"`))
	if v := j.verdict(seq, 1); v.Verdict != streams.Deny || !slices.Equal(v.Degraded, []string{"last"}) {
		t.Errorf("before the verdict: %s, degraded %v", v.Verdict, v.Degraded)
	}
}

func TestNothingThatAGroupWritesStopsThePipeline(t *testing.T) {
	long(t)
	t.Parallel()
	p, j := judged(t, `[core, {name: judge, digest: "external:judge-v1", deadline: 5s}]`)
	long := strings.Repeat("x", 2<<20)
	j.publish("judge", "assessment", 1<<60, assess(`,"verdict":"deny"`))
	j.publish("judge", "alerts", 2, `[]`)
	j.publish("judge", "alerts", 2, "\xff\x00")
	// The findings of this answer are several times larger than a verdict may be.
	var alerts []string
	for range 3000 {
		alerts = append(alerts, alert("hold", "much"))
	}
	seq := j.ask("big", "read_file")
	for range 3 {
		j.publish("judge", "assessment", seq, `{"group":"judge","digest":"external:other","verdict":"hold","alerts":[`+
			alert("hold", long)+","+alert("hold", long)+`]}`)
	}
	j.publish("judge", "assessment", seq, assess(`,"verdict":"hold","alerts":[`+strings.Join(alerts, ",")+`]`))
	v := j.verdict(seq, 1)
	if v.Verdict != streams.Hold || len(v.Degraded) != 0 || len(v.Reasons) > 50 {
		t.Errorf("%s, degraded %v, %d reasons", v.Verdict, v.Degraded, len(v.Reasons))
	}
	seq = j.ask("after", "read_file")
	j.publish("judge", "assessment", seq, assess(`,"verdict":"allow"`))
	if v := j.verdict(seq, 1); v.Verdict != streams.Allow {
		t.Errorf("afterwards: %+v", v)
	}
	// Headers that are too long to store.
	j.publish("judge", long[:1100], 1, "{}")
	natstest.Eventually(t, time.Minute, "the auditor chains all of it", func() bool {
		out, code := command(t, p.data, "audit", "verify")
		return code == 0 && strings.Contains(out, "VERIFIED")
	})
	if out, code := command(t, p.data, "doctor"); code != 0 {
		t.Errorf("doctor: exit %d\n%s", code, out)
	}
}
