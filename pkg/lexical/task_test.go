package lexical

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/text"
)

// told has messages of one session. The test stores a message of the agent as a note and searches for it with what the
// user said before (the task).
type told struct {
	first       string // the user's first message
	last        string // the agent's last message
	task        string // all that the user said before last
	longest     string // the agent's longest message
	longestTask string // all that the user said before longest
}

// sessions returns the messages of the sessions in a file. Of several sessions that begin with the same message of the
// user, it returns only the first.
func sessions(t *testing.T, name string) (out []told) {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../shared/corpora", name))
	if err != nil {
		t.Skipf("SKIPPED: no corpora beside the repository: %v", err)
	}
	defer f.Close()
	seen := make(map[string]bool)
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var s struct {
			Steps []struct{ Kind, Content string }
		}
		if err := json.Unmarshal(sc.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		var p told
		var said []string
		for _, st := range s.Steps {
			switch {
			case st.Kind == "user":
				said = append(said, st.Content)
			case st.Kind == "agent" && len(st.Content) > 20 && len(said) > 0:
				p.last, p.task = st.Content, strings.Join(said, "\n")
				if len(st.Content) > len(p.longest) {
					p.longest, p.longestTask = p.last, p.task
				}
			}
		}
		if p.last == "" || seen[said[0]] {
			continue
		}
		seen[said[0]], p.first = true, said[0]
		out = append(out, p)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The test searches for the note of each session with the user's words. All notes of a file are in one index. The
// bounds are measured values: in how many percent of the sessions the note is the first hit, among the first 5 hits,
// and among the first 10.
func TestARecallByTheUsersTaskFindsTheNoteOfThatTask(t *testing.T) {
	for _, want := range []struct {
		file    string
		first   [3]int // the note is the agent's last message, the query is the user's first message
		last    [3]int // the note is the agent's last message, the query is all that the user said before it
		longest [3]int // the same for the agent's longest message
	}{
		{"sessions_agentdojo_clean.jsonl", [3]int{59, 94, 96}, [3]int{59, 94, 96}, [3]int{61, 95, 100}},
		{"sessions_agentdojo_attacked.jsonl", [3]int{48, 93, 97}, [3]int{48, 93, 97}, [3]int{52, 91, 95}},
		{"sessions_asb.jsonl", [3]int{80, 100, 100}, [3]int{80, 100, 100}, [3]int{70, 100, 100}},
		{"sessions_injecagent.jsonl", [3]int{88, 94, 94}, [3]int{88, 94, 94}, [3]int{88, 94, 94}},
		// The customers in these sessions spread their request over several messages. The last message of the agent is
		// often a farewell.
		{"sessions_tau.jsonl", [3]int{22, 38, 45}, [3]int{54, 77, 80}, [3]int{62, 85, 90}},
	} {
		all := sessions(t, want.file)
		last := func(p told) string { return p.last }
		measure := func(what string, note, task func(told) string, least [3]int) {
			hits := recallBy(t, all, note, task)
			t.Logf("%s, %s: of %d tasks, the note is first in %d %%, among the first 5 in %d %%, among the first 10 in %d %%",
				want.file, what, len(all), hits[0], hits[1], hits[2])
			for i := range hits {
				if hits[i] < least[i] {
					t.Errorf("%s, %s: found %v %%, want %v", want.file, what, hits, least)
				}
			}
		}
		measure("first message", last, func(p told) string { return p.first }, want.first)
		measure("whole task", last, func(p told) string { return p.task }, want.last)
		if testing.Short() {
			continue
		}
		measure("whole task, longest message", func(p told) string { return p.longest },
			func(p told) string { return p.longestTask }, want.longest)
		// The words that the task and the note share are the best possible query for a search by words. Without bounds,
		// only for comparison.
		measure("shared words", last, func(p told) string { return shared(p.task, p.last) }, [3]int{})
	}
}

// recallBy searches for the note of each session with the words of its task. It returns in how many percent of the
// sessions the note is the first hit, among the first 5, and among the first 10.
func recallBy(t *testing.T, all []told, note, task func(told) string) (hits [3]int) {
	t.Helper()
	x := Open(newKV(t), []byte("x"))
	for _, p := range all {
		if err := x.Add(note(p), Words(note(p)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		words := Words(task(p))
		found, err := x.Search(Query{Words: words, Near: Near(words), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.Index(ids(t, x, found), note(p))
		for i, n := range []int{1, 5, 10} {
			if at >= 0 && at < n {
				hits[i]++
			}
		}
	}
	for i := range hits {
		hits[i] = hits[i] * 100 / max(1, len(all))
	}
	return hits
}

// shared returns the words of a task that also occur in a note.
func shared(task, note string) string {
	in := make(map[text.Term]bool)
	for _, w := range Words(note) {
		in[w] = true
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(task), func(s string) bool {
		return !slices.ContainsFunc(Words(s), func(w text.Term) bool { return in[w] })
	}), " ")
}
