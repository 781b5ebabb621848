package hook

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
)

// settingsNote is the name of the state file that lists the settings files with this hook.
const settingsNote = "settings"

// settingsFiles returns the settings files that may register the hook for a session.
func (h *handler) settingsFiles() []string {
	local := path.Join(path.Dir(h.host.File), "settings.local.json")
	return []string{h.path("~/" + h.host.File), h.path(h.host.File), h.path(local)}
}

// noteSettings stores the list of settings files that register this hook at the start of a session.
func (h *handler) noteSettings() error {
	if h.cfg.Read == nil || !slices.Contains(h.host.Events, ConfigChange) {
		return nil
	}
	var files []string
	for _, file := range h.settingsFiles() {
		if b, err := h.cfg.Read(file); err == nil && file != "" && h.host.Installed(b) {
			files = append(files, file)
		}
	}
	return h.st.write(settingsNote, files)
}

// configured asks for a verdict on a change of settings that removes this hook. By the shipped policy, the
// verdict is deny, with an alert.
func (h *handler) configured(ctx context.Context) (*Answer, error) {
	if h.cfg.Read == nil {
		return nil, nil
	}
	var before []string
	if err := h.st.look(settingsNote, &before); err != nil {
		return nil, err
	}
	removed := ""
	for _, file := range before {
		b, err := h.cfg.Read(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !h.host.Installed(b) {
			removed = file
		}
	}
	if removed == "" {
		return nil, nil
	}
	asked := *h.e
	asked.Tool, asked.Call = ConfigChange, ""
	asked.Input = asJSON(map[string]any{"file": filepath.ToSlash(removed), "source": h.e.Source, "hooks": "removed"})
	h.e = &asked
	a, err := h.propose(ctx)
	if why, refused := a.refusal(); refused {
		return &Answer{Decision: "block", Reason: why}, err
	}
	return nil, err
}
