package main

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"lazaret/internal/chaos"
)

// variable is the environment variable that selects the mutant of a mutated program. The program is
// built once; without the variable it behaves like the unmutated one.
const variable = "LAZARET_MUTANT"

// mutant is a fault that a developer might introduce.
type mutant struct {
	name, what string
	edits      []edit
	args       []string                // arguments of the chaos run that detects it
	test       string                  // or the test of internal/stage that detects it
	found      func(*chaos.Report) int // returns the number of the problems that the fault causes
	verdict    string                  // description of these problems, or a part of the failed test's output
}

// edit replaces old, which occurs exactly once in the file.
type edit struct{ file, old, new string }

func lost(r *chaos.Report) int       { return r.Lost }
func doubled(r *chaos.Report) int    { return r.Doubled }
func unanswered(r *chaos.Report) int { return r.Unanswered }
func untrue(r *chaos.Report) int     { return r.Untrue }
func altered(r *chaos.Report) int    { return r.Altered }

// plain returns the arguments of a run without drills and with this number of events.
func plain(events int) []string { return []string{"--drills=", "--events", fmt.Sprint(events)} }

// drilled returns the arguments of a run of one drill.
func drilled(name string) []string { return []string{"--drills", name, "--events", "100"} }

// joint returns the arguments of a run of stages that decide jointly.
func joint(drill string) []string {
	return []string{"--processes", "pair", "--drills", drill, "--events", "400"}
}

// none is the name of the unmutated program.
const none = "none"

// controls are the runs in which the unmutated program must pass the checks of all mutants.
var controls = []mutant{
	{name: none, what: "the program as it is", args: []string{"--drills",
		"overlap:ingest,mute:ingest,mute:arbiter,backlog:ingest", "--events", "3000"}},
	{name: none, what: "the program as it is, with joint decisions", args: joint("stray:stages")},
	{name: none, what: "the program as it is, with these tests", test: decideAsAlone + "|" + claimEnds},
}

// The tests of internal/stage that detect faults of joint decisions.
const (
	decideAsAlone = "TestStagesThatDecideTogetherDecideAsAlone"
	claimEnds     = "TestAClaimEndsTheJointFramesOfAnotherProcess"
)

const (
	publishGo = "internal/stage/publish.go"
	intakeGo  = "internal/stage/intake_ledger.go"
	decideGo  = "internal/stage/intake_decide.go"
	purgeGo   = "internal/stage/intake_purge.go"
	ledgerGo  = "internal/stage/ledger.go"
	frontGo   = "internal/arbiter/front.go"
	arbiterGo = "internal/arbiter/fold.go"
	ingestGo  = "internal/ingest/fold.go"
	prepareGo = "internal/ingest/prepare.go"
	jointGo   = "internal/stage/joint.go"
	leadsGo   = "internal/stage/intake_joint.go"
	answersGo = "internal/stage/ledger_joint.go"
	offerGo   = "internal/stage/offer.go"
)

const unfence = `	if mutant == "M1" {
		delete(m.Header, jetstream.ExpectedLastSubjSeqHeader)
	}
`

var mutants = []mutant{
	{"M1", "entries are published without a fence", []edit{
		{publishGo, "	ack, err := p.request(ctx, m)\n	if err == nil {\n",
			unfence + "	ack, err := p.request(ctx, m)\n	if err == nil {\n"},
		{publishGo, `		m.Header["Nats-Batch-Id"] = []string{id}` + "\n",
			unfence + `		m.Header["Nats-Batch-Id"] = []string{id}` + "\n"},
	}, drilled("overlap:ingest"), "", doubled, "doubled"},
	{"M2", "ingest commits state and cursor before it publishes", []edit{
		{decideGo, "		s.store.seal()\n		f.gather()\n", `		s.store.seal()
		if mutant == "M2" {
			for _, e := range f.entries {
				s.decided[e.Partition].add(e.Src)
			}
			if err := s.commitSealed(); err != nil {
				return err
			}
		}
		f.gather()
`},
	}, drilled("mute:ingest"), "", lost, "lost"},
	{"M3", "callers are answered before the ledger holds the verdict", []edit{
		{ledgerGo, "func (s *ledgerStage) push(p *pending) {\n", `// Early hands verdicts to the services of the arbiter.
var Early func(streams.Entry)

func (s *ledgerStage) push(p *pending) {
	if mutant == "M3" && Early != nil && p.entry.Type == streams.TypeVerdict {
		e := *p.entry
		e.Seq = s.cursors[e.Partition].folded + 1
		Early(e)
	}
`},
		{frontGo, "	version := cfg.Version\n", "	stage.Early = f.deliver\n	version := cfg.Version\n"},
	}, plain(1000), "", untrue, "untrue answers"},
	{"M4", "an event that is sent again is treated as new", []edit{
		{ingestGo, "	if is.first != 0 {\n", "	if is.first != 0 && mutant != \"M4\" {\n"},
	}, plain(1000), "", doubled, "doubled"},
	{"M5", "one memory write in 40 gets no verdict", []edit{
		{arbiterGo, "	p.Deadline = p.waits()\n	if err := st.Set(waitingKey",
			`	if mutant == "M5" && p.Type == streams.TypeMemory && p.Seq%40 == 0 {
		return replaced.output()
	}
	p.Deadline = p.waits()
	if err := st.Set(waitingKey`},
	}, plain(3000), "", unanswered, "without a verdict"},
	{"M6", "the content of one observation in 100 is cut", []edit{
		{prepareGo, "		for _, b := range blocksOf(o) {\n",
			`		if mutant == "M6" && m.Seq%100 == 0 && len(o.Content) > 10 {
			o.Content = o.Content[:10]
		}
		for _, b := range blocksOf(o) {
`},
	}, plain(2000), "", altered, "with another content"},
	{"M7", "the intake is purged of events that wait", []edit{
		{purgeGo, "			low = min(low, h.msg.Seq)\n",
			"			if mutant != \"M7\" {\n				low = min(low, h.msg.Seq)\n			}\n"},
	}, drilled("backlog:ingest"), "", lost, "lost"},
	{"M8", "the outbox is not kept with the cursor", []edit{
		{ledgerGo, "			if b.stored {\n				continue\n", "			if b.stored || mutant == \"M8\" {\n				continue\n"},
	}, drilled("mute:arbiter,mute:arbiter,mute:arbiter"), "", unanswered, "without a verdict"},
	{"M9", "ingest skips messages that its previous process skipped", []edit{
		{intakeGo, "	s.decided[e.Partition].add(e.Src)\n", `	s.decided[e.Partition].add(e.Src)
	if mutant == "M9" {
		s.decided[e.Partition].settle(e.Src + 1)
	}
`},
	}, drilled("backlog:ingest"), "", lost, "lost"},
	{"M10", "ingest does not claim a partition", []edit{
		{leadsGo, "	if !s.unsure[p] {\n", "	if mutant == \"M10\" {\n		s.unsure[p] = false\n	}\n	if !s.unsure[p] {\n"},
	}, joint("stray:stages"), "", doubled, "doubled"},
	{"M11", "a joint frame may follow entries that the stages have not processed", []edit{
		{jointGo, "	ack, err := j.pub.request(ctx, m)\n", `	switch mutant {
	case "M11":
		delete(m.Header, jetstream.ExpectedLastSeqHeader)
	case "M12":
		delete(m.Header, jetstream.ExpectedLastSubjSeqHeader)
		delete(m.Header, jetstream.ExpectedLastSubjSeqSubjHeader)
	}
	ack, err := j.pub.request(ctx, m)
`},
	}, nil, decideAsAlone, nil, "does not answer an earlier entry"},
	{"M12", "a joint frame may follow a claim", nil, nil, claimEnds, nil, "was stored after the claim"}, // edited with M11
	{"M13", "a stage keeps the state of a dropped joint decision", []edit{
		{answersGo, "	if err := s.store.discard(); err != nil {\n",
			"	if mutant == \"M13\" {\n		s.fold.Reset()\n		return nil\n	}\n" +
				"	if err := s.store.discard(); err != nil {\n"},
	}, nil, decideAsAlone, nil, "a replay gives"},
	{"M14", "a stage keeps the indexes of a dropped joint decision", []edit{
		{answersGo, "	}\n	s.fold.Reset()\n", "	}\n	if mutant != \"M14\" {\n		s.fold.Reset()\n	}\n"},
	}, nil, decideAsAlone, nil, "a replay gives"},
	{"M15", "ingest skips the answers in its joint frames", []edit{
		{leadsGo, "		if e.Stage != s.cfg.Name && s.fold.Relevant(e) {\n",
			"		if e.Stage != s.cfg.Name && s.fold.Relevant(e) && mutant != \"M15\" {\n"},
	}, nil, decideAsAlone, nil, "was decided with"},
	{"M16", "ingest takes an offer although it has not read the whole intake", []edit{
		{offerGo, "m.Header.Get(\"Status\") == \"404\"\n", "(m.Header.Get(\"Status\") == \"404\" || mutant == \"M16\")\n"},
	}, nil, decideAsAlone, nil, "had been acknowledged before"},
}

// mutated returns the changed files by path within the module. It returns an error if the text of an
// edit is not found.
func mutated(root string) (map[string]string, error) {
	files := make(map[string]string)
	for _, m := range mutants {
		for _, e := range m.edits {
			src, ok := files[e.file]
			if !ok {
				b, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					return nil, err
				}
				src = string(b)
			}
			if n := strings.Count(src, e.old); n != 1 {
				return nil, fmt.Errorf("%s: %s has the text that the mutation replaces %d times, not once: adapt the "+
					"mutation to the current code:\n%s", m.name, e.file, n, e.old)
			}
			files[e.file] = strings.Replace(src, e.old, e.new, 1)
		}
	}
	for f, src := range files {
		file, err := parser.ParseFile(token.NewFileSet(), f, src, 0)
		if err != nil {
			return nil, fmt.Errorf("a mutated file: %w", err)
		}
		files[filepath.Join(filepath.Dir(f), "mutant_overlay.go")] = fmt.Sprintf(
			"package %s\n\nimport \"os\"\n\nvar mutant = os.Getenv(%q)\n", file.Name.Name, variable)
	}
	return files, nil
}

// overlay writes the changed files to dir and returns the path of the list for go build -overlay.
func overlay(root, dir string) (string, error) {
	files, err := mutated(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for f, src := range files {
		to := filepath.Join(dir, strings.ReplaceAll(f, "/", "_"))
		if err := os.WriteFile(to, []byte(src), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, f)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}
