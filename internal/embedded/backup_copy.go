package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lazaret/internal/natsserver"
	"lazaret/pkg/durable"
	"lazaret/pkg/keys"
)

// made are the files and folders of a data folder that a backup without keys has, besides the auditor's log and the
// snapshots of the stages. Lazaret writes them, and a restore uses them.
var made = []string{"jetstream", "memories", "hooks", "notify", "forgotten", "shards", keys.TrustFile,
	filepath.Base(WitnessPolicy(""))}

// secretFolders are the folders of keys, credentials and logins. Only a backup with keys has them.
var secretFolders = []string{"keys", "creds", "nats", "console"}

// copier copies the parts of a data folder that belong to a backup.
type copier struct {
	data, to string
	keys     bool
	left     []string // relative paths of the files and folders that were not copied, at most maxLeft
	more     int      // those beyond maxLeft
}

const maxLeft = 100

// copyData copies the parts of a data folder that belong to a backup, except the auditor's log. With keys, it copies
// the user's own files too. It returns the files and folders in data that it did not copy and that nobody can rebuild.
func copyData(data, to string, withKeys bool) (left []string, err error) {
	es, err := os.ReadDir(data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	c := &copier{data: data, to: to, keys: withKeys}
	for _, e := range es {
		name := e.Name()
		switch {
		case slices.Contains([]string{"lock", "audit", "snapshots", "backups"}, name):
		case name == "state":
			err = c.snapshots()
		case withKeys || slices.Contains(made, name):
			err = c.tree(name)
		case !slices.Contains(secretFolders, name):
			c.leave(name, e.IsDir())
		}
		if err != nil {
			return nil, fmt.Errorf("copying %s: %w", name, err)
		}
	}
	if err := natsserver.CopyRegister(data, to); err != nil {
		return nil, err
	}
	if c.more > 0 {
		c.left = append(c.left, fmt.Sprintf("and %d more", c.more))
	}
	return c.left, secure(to)
}

func (c *copier) leave(name string, dir bool) {
	if len(c.left) == maxLeft {
		c.more++
		return
	}
	if dir {
		name += "/"
	}
	c.left = append(c.left, filepath.ToSlash(name))
}

// snapshots copies the stage snapshots from trimming.
func (c *copier) snapshots() error {
	dirs, err := durable.Glob(StateDir(c.data, ""), "*"+snapshotSuffix)
	for _, d := range dirs {
		if err == nil {
			err = c.tree(StateDir("", filepath.Base(d)))
		}
	}
	return err
}

// tree copies a file, or a folder with its contents.
func (c *copier) tree(name string) error {
	return filepath.WalkDir(filepath.Join(c.data, name), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile, for example by a hook
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(c.data, path)
		switch {
		case err != nil:
			return err
		case e.IsDir() && !c.keys && filepath.Dir(rel) == "jetstream" && e.Name() != "jetstream":
			c.leave(rel, true) // nats-server writes no other folder there
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(c.to, rel), 0o700)
		case !e.Type().IsRegular():
			c.leave(rel, false)
			return nil
		}
		return c.file(rel)
	})
}

func (c *copier) file(rel string) (err error) {
	f, err := os.Open(filepath.Join(c.data, rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !c.keys {
		secret, err := isSecret(rel, f)
		if err != nil {
			return err
		}
		if secret {
			c.leave(rel, false)
			return nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	to, err := os.OpenFile(filepath.Join(c.to, rel), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return errors.Join(err, to.Close())
}

var (
	// sealed are the names of encrypted or compressed files, which are not searched: those of nats-server, the tables
	// of a snapshot, and shards.
	sealed = regexp.MustCompile(`^(jetstream/jetstream/.*/(meta\.(inf|sum|key)|[0-9]+\.(blk|key)|index\.db)` +
		`|state/.*\.sst|shards/[^/]*\.zip)$`)
	secretName = regexp.MustCompile(`(?i)\.(key|nk|creds|token|pem|p12|pfx|seed)([.~_-].*)?$|^notify\.ya?ml|^\.env`)
	secretText = regexp.MustCompile(`PRIVATE\+KEY\+|-----BEGIN [A-Z0-9 ]*(PRIVATE KEY|SEED)|lzt_[A-Za-z0-9_-]{16}` +
		`|\bS[UAOCNX][A-Z2-7]{56}\b`)
	// names are the files that Lazaret writes to folders in which it writes no text of agents.
	names = map[string]*regexp.Regexp{"forgotten": regexp.MustCompile(`\.json$`),
		"shards": regexp.MustCompile(`\.zip$|^sealed$`), "notify": regexp.MustCompile(`\.jsonl?(\.lock)?$`)}
)

// isSecret reports whether a file may contain a private key, a seed, a token or another secret, by its name or its
// text. rel is its path in the data folder.
func isSecret(rel string, r io.Reader) (bool, error) {
	path, name := filepath.ToSlash(rel), filepath.Base(rel)
	if sealed.MatchString(path) {
		return false, nil
	}
	if p := names[strings.Split(path, "/")[0]]; secretName.MatchString(name) || p != nil && !p.MatchString(name) {
		return true, nil
	}
	const overlap = 256 // bytes of a secret that two reads divide
	b := make([]byte, 1<<20)
	for kept := 0; ; {
		n, err := io.ReadFull(r, b[kept:])
		if secretText.Match(b[:kept+n]) {
			return true, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(b, b[len(b)-overlap:])
	}
}
