package notify

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lazaret/pkg/files"
	"lazaret/streams"
)

// Dir returns the folder with dead letters, reminders and acknowledgments in a data folder. They contain no
// texts of the ledger, so an erasure need not change them.
func Dir(data string) string { return filepath.Join(data, "notify") }

// Dead is a notification that was not delivered.
type Dead struct {
	Time    time.Time `json:"time"`
	Route   string    `json:"route"`
	ID      string    `json:"id,omitzero"`
	Kind    Kind      `json:"kind,omitzero"`
	Project string    `json:"project,omitzero"`
	Entry   uint64    `json:"entry"`       // ledger sequence
	To      uint64    `json:"to,omitzero"` // for entries that were trimmed before they were read: the last one
	Link    string    `json:"link,omitzero"`
	Error   string    `json:"error"`
}

// mostDead is the size in bytes above which a file of dead letters is full. The full file then becomes the
// older file and replaces the previous older file, so that at most two files exist.
const mostDead = 16 << 20

func deadFile(dir string) string { return filepath.Join(dir, "dead.jsonl") }

func olderDeadFile(dir string) string { return filepath.Join(dir, "dead.1.jsonl") }

// burying serializes writes of dead letters: the routes of a process share a file.
var burying sync.Mutex

// bury writes dead letters and syncs the file.
func bury(dir string, letters ...Dead) error {
	var lines []byte
	for _, d := range letters {
		b, err := streams.Marshal(d)
		if err != nil {
			return err
		}
		lines = append(append(lines, b...), '\n')
	}
	burying.Lock()
	defer burying.Unlock()
	if st, err := os.Stat(deadFile(dir)); err == nil && st.Size() >= mostDead {
		if err := files.Rename(deadFile(dir), olderDeadFile(dir)); err != nil {
			return err
		}
	}
	return appendSynced(deadFile(dir), lines)
}

// DeadLetters returns the dead letters of a data folder, oldest first. It skips an incomplete line
// after a crash: that notification was not acknowledged and is delivered again.
func DeadLetters(data string) ([]Dead, error) {
	newer, err := readDead(deadFile(Dir(data))) // read it first: it may become the older file meanwhile
	if err != nil {
		return nil, err
	}
	older, err := readDead(olderDeadFile(Dir(data)))
	return append(older, newer...), err
}

func readDead(file string) ([]Dead, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Dead
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d Dead
		if streams.Unmarshal(lines.Bytes(), &d) == nil {
			out = append(out, d)
		}
	}
	return out, lines.Err()
}

// Ack records that a person has seen the notifications of a thread: a hold, or a rule in a project.
type Ack struct {
	Thread string    `json:"thread"` // PROJECT/HOLD or PROJECT/RULE
	By     string    `json:"by"`
	Time   time.Time `json:"time"`
}

func ackFile(dir string) string { return filepath.Join(dir, "acks.json") }

// mostAcks is the maximum number of stored acknowledgments. The oldest is dropped first.
const mostAcks = 1000

// Acknowledge ends the reminders of a thread. It returns the names of the routes that had a reminder of it, except for
// reminders that an earlier acknowledgement had ended. before is the last acknowledgement of the thread before this
// one, or nil.
func Acknowledge(data string, a Ack) (routes []string, before *Ack, err error) {
	if p, rest, ok := strings.Cut(a.Thread, "/"); !ok || streams.CheckID("project", p) != nil || rest == "" {
		return nil, nil, fmt.Errorf("%q is neither PROJECT/HOLD nor PROJECT/RULE", a.Thread)
	}
	dir := Dir(data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	file := ackFile(dir)
	err = files.Locked(file, func() error {
		list, err := readJSON[[]Ack](file)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list, func(x Ack) bool { return x.Thread == a.Thread }); i >= 0 {
			x := list[i]
			before, list = &x, slices.Delete(list, i, i+1)
		}
		list = append(list, a)
		return writeJSON(file, list[max(0, len(list)-mostAcks):])
	})
	if err != nil {
		return nil, nil, err
	}
	prefix, suffix, _ := strings.Cut(filepath.Base(remindersFile("", "*")), "*")
	paths, err := files.Glob(dir, prefix+"*"+suffix)
	for _, f := range paths {
		r, err := readJSON[reminders](f)
		if err != nil {
			return nil, nil, err
		}
		if t := r[a.Thread]; t != nil && (before == nil || !before.ends(t)) {
			routes = append(routes, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), prefix), suffix))
		}
	}
	return routes, before, err
}

// ends reports whether the acknowledgement ends a reminder of its thread: it came after the notification.
func (a *Ack) ends(t *reminder) bool { return a.Time.After(t.Notice.Time) }

// reminders are the threads of a route that are neither acknowledged nor settled, by Notice.thread.
type reminders map[string]*reminder

type reminder struct {
	Notice Notice    `json:"notice"` // the notification without its texts
	Sent   time.Time `json:"sent"`
	Times  int       `json:"times"` // how often the notification was repeated
}

// mostReminders is the maximum number of a route's threads with reminders. The oldest is dropped first.
const mostReminders = 1000

func remindersFile(dir, route string) string { return filepath.Join(dir, "reminders-"+route+".json") }

func (r reminders) add(n *Notice, now time.Time) {
	m := *n
	m.Text, m.Agent, m.Session, m.Tool = "", "", "", ""
	r[n.thread()] = &reminder{Notice: m, Sent: now}
	if len(r) <= mostReminders {
		return
	}
	oldest := n.thread()
	for k, x := range r {
		if x.Sent.Before(r[oldest].Sent) || x.Sent.Equal(r[oldest].Sent) && k < oldest {
			oldest = k
		}
	}
	delete(r, oldest)
}

func readJSON[T any](file string) (v T, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err == nil {
		err = streams.Unmarshal(b, &v)
	}
	if err != nil {
		return v, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

func writeJSON(file string, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return err
	}
	return files.Write(file, append(b, '\n'), 0o600)
}
