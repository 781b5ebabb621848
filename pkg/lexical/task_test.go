package lexical

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pair is a user's task and the note that belongs to it.
type pair struct{ task, note string }

// sessions returns, of each different task of a file of sessions, the user's first words
// and the agent's last.
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

// foundByTask returns for how many pairs in a hundred a search by the task has the note
// among its first five and its first ten hits.
func foundByTask(t *testing.T, pairs []pair) (five, ten int) {
	t.Helper()
	x := Open(newKV(t), []byte("x"))
	for _, p := range pairs {
		if err := x.Add(p.note, Words(p.note), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pairs {
		words := Words(p.task)
		hits, err := x.Search(Query{Words: words, Near: Near(words), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.Index(ids(t, x, hits), p.note)
		if at >= 0 {
			ten++
			if at < 5 {
				five++
			}
		}
	}
	return five * 100 / len(pairs), ten * 100 / len(pairs)
}

func TestARecallByTheUsersTaskFindsTheNoteOfThatTask(t *testing.T) {
	five, ten := foundByTask(t, sessions(t, "sessions_agentdojo_clean.jsonl"))
	t.Logf("%d %% among the first five, %d %% among the first ten", five, ten)
	if five < 80 || ten < 90 {
		t.Errorf("found %d and %d %%, want 80 and 90", five, ten)
	}
}

// The notes of tasks.tsv share no word, or nearly none, with their tasks.
func TestARecallFindsNotesInOtherWordsThanTheTasks(t *testing.T) {
	b, err := os.ReadFile("testdata/tasks.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var pairs []pair
	for line := range strings.Lines(string(b)) {
		task, note, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("no tab in %q", line)
		}
		pairs = append(pairs, pair{task, note})
	}
	five, ten := foundByTask(t, pairs)
	t.Logf("%d %% among the first five, %d %% among the first ten", five, ten)
	if five < 38 || ten < 45 {
		t.Errorf("found %d and %d %%, want 38 and 45", five, ten)
	}
}
