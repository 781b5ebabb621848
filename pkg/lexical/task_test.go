package lexical

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// pair is a user's task and the note that belongs to it.
type pair struct{ task, note string }

// sessions returns the user's first words and the agent's last ones, for each different task of a file
// of recorded sessions.
func sessions(t *testing.T, name string) (out []pair) {
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
		var p pair
		for _, st := range s.Steps {
			switch {
			case st.Kind == "user" && p.task == "":
				p.task = st.Content
			case st.Kind == "agent" && len(st.Content) > 20:
				p.note = st.Content
			}
		}
		if p.task != "" && p.note != "" && !seen[p.task] {
			seen[p.task] = true
			out = append(out, p)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The note of a task is what the agent said last in its session. All notes of a file are in one index.
// The bounds are the measured values, in percent: the note is the first hit, among the first 5, and among
// the first 10.
func TestARecallByTheUsersTaskFindsTheNoteOfThatTask(t *testing.T) {
	for name, least := range map[string][3]int{
		"sessions_agentdojo_clean.jsonl":    {57, 89, 91},
		"sessions_agentdojo_attacked.jsonl": {50, 84, 86},
		"sessions_asb.jsonl":                {80, 100, 100},
		"sessions_injecagent.jsonl":         {88, 94, 94},
		// Customers of these sessions say what they want over several messages, and the last words of
		// the agent are often a farewell.
		"sessions_tau.jsonl": {22, 38, 45},
	} {
		pairs := sessions(t, name)
		x := Open(newKV(t), []byte("x"))
		for _, p := range pairs {
			if err := x.Add(p.note, Words(p.note), nil); err != nil {
				t.Fatal(err)
			}
		}
		var hits [3]int
		for _, p := range pairs {
			words := Words(p.task)
			found, err := x.Search(Query{Words: words, Near: Near(words), Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			at := slices.Index(ids(t, x, found), p.note)
			for i, n := range []int{1, 5, 10} {
				if at >= 0 && at < n {
					hits[i]++
				}
			}
		}
		for i := range hits {
			hits[i] = hits[i] * 100 / max(1, len(pairs))
		}
		t.Logf("%s: of %d tasks, the note is first in %d %%, among the first 5 in %d %%, among the first 10 in %d %%", name,
			len(pairs), hits[0], hits[1], hits[2])
		for i := range hits {
			if hits[i] < least[i] {
				t.Errorf("%s: found %v %%, want %v", name, hits, least)
			}
		}
	}
}
