package ingest

import (
	"testing"

	"lazaret/streams"
)

func TestEveryKindOfEventIsAdmittedAndFolded(t *testing.T) {
	for _, k := range streams.Kinds {
		if admitters[k] == nil {
			t.Errorf("no file admits events of kind %q", k)
		}
		if newBody(k.About().Type) == nil {
			t.Errorf("no file says that ingest writes entries of type %q", k.About().Type)
		}
	}
}
