package part

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/pkg/files"
	"lazaret/pkg/keys"

	shipped "lazaret/rules"
)

// Names are the names of the processes that can have a part.
var Names = []string{"ingest", "sentinels", "arbiter", "auditor", "trim"}

// Files returns the paths, relative to the data folder, of the files that a process needs. groups
// are the sentinel groups; nil means the shipped ones.
func Files(name string, groups []string) ([]string, error) {
	var roles []natsserver.Role
	paths := []string{keys.TrustFile}
	key := func(path string) { paths = append(paths, filepath.ToSlash(path)) }
	switch name {
	case "ingest":
		roles = []natsserver.Role{natsserver.RoleIngest, natsserver.RoleService}
		key(datafolder.StateKeyFile(""))
	case "sentinels":
		if groups == nil {
			groups = shipped.Groups()
		}
		for _, g := range groups {
			roles = append(roles, natsserver.SentinelRole(g))
		}
		key(datafolder.StateKeyFile(""))
	case "arbiter":
		roles = []natsserver.Role{natsserver.RoleArbiter, natsserver.RoleFront, natsserver.RoleService}
		key(datafolder.StateKeyFile(""))
	case "auditor":
		roles = []natsserver.Role{natsserver.RoleAuditor, natsserver.RoleService}
		key(datafolder.AuditorKey(""))
		key(datafolder.MasterKeyFile(""))
	case "trim":
		// The operator's credential is needed to request a snapshot of the log from the running
		// auditor.
		roles = []natsserver.Role{natsserver.RoleRetention, natsserver.RoleOperator}
		key(datafolder.MasterKeyFile(""))
	default:
		return nil, fmt.Errorf("there is no part for %q: use one of %s", name, strings.Join(Names, ", "))
	}
	for _, r := range roles {
		key(natsfiles.Creds("", string(r)))
		key(natsfiles.Context("", string(r)))
	}
	slices.Sort(paths)
	return paths, nil
}

// Part describes the part of a process: a folder with the files that it needs of a data folder.
type Part struct {
	Data, Name string
	Groups     []string // sentinel groups; nil means the shipped ones
	Dir        string   // the part
	At         string   // where the process finds the part
	URL        string   // addresses of the servers; "" means those that the data folder has
	// TrustOfData makes the part's pins those of the data folder, so that handovers that only the part has are lost.
	TrustOfData bool
}

// Make copies the files from the data folder to the part. It can be repeated when credentials are renewed. It keeps
// other keys that the part has, and the handovers of an auditor's keys. kept has a line about each, and about each pin
// that the part loses. If a key or the trust file cannot be written, Make still writes the other files.
func (p Part) Make() (kept []string, err error) {
	paths, err := Files(p.Name, p.Groups)
	if err != nil {
		return nil, err
	}
	content := make(map[string][]byte)
	for _, f := range paths {
		b, err := os.ReadFile(filepath.Join(p.Data, f))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the data folder has no %s, which %s needs: make it with `lazaret server init` or start "+
				"`lazaret up` once: %w", f, p.Name, err)
		} else if err != nil {
			return nil, err
		}
		if filepath.Ext(f) == ".json" {
			if b, err = moved(b, p.At, p.URL); err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
		}
		content[f] = b
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, err
	}
	var secrets []string
	for _, f := range paths {
		to := filepath.Join(p.Dir, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return nil, err
		}
		if filepath.Dir(f) == natsserver.KeysDir("") {
			secrets = append(secrets, f)
		} else if f != keys.TrustFile {
			if err := files.Write(to, content[f], 0o600); err != nil {
				return nil, err
			}
		}
	}
	m := merger{data: p.Data, dir: p.Dir}
	err = datafolder.WithTrustFile(datafolder.TrustFile(p.Dir), func() error {
		return m.put(secrets, content, !p.TrustOfData && slices.Contains(secrets, datafolder.AuditorKey("")))
	})
	return m.kept, err
}

// moved returns a NATS context with its credential path below another folder.
func moved(context []byte, at, url string) ([]byte, error) {
	var c map[string]any
	if err := json.Unmarshal(context, &c); err != nil {
		return nil, err
	}
	creds, _ := c["creds"].(string)
	if creds == "" {
		return nil, errors.New("the context names no credential file (creds)")
	}
	c["creds"] = natsfiles.Creds(at, strings.TrimSuffix(filepath.Base(creds), ".creds"))
	if url != "" {
		c["url"] = url
	}
	return json.MarshalIndent(c, "", "  ")
}
