package beliefs

import "testing"

func TestASealTellsEveryPartOfAnIdentityApart(t *testing.T) {
	base := Identity{Content: "sha256:00", Kind: MemoryClaim, Key: "k", Origin: OriginWeb, Source: "s", Observation: "o",
		Namespace: Namespace{User: "u"}, Sensitivity: Internal}
	seen := map[string]string{base.Seal(): "itself"}
	for what, change := range map[string]func(i *Identity){
		"content": func(i *Identity) { i.Content = "sha256:01" }, "kind": func(i *Identity) { i.Kind = Content },
		"key":    func(i *Identity) { i.Key = "" },
		"origin": func(i *Identity) { i.Origin = OriginUser }, "source": func(i *Identity) { i.Source = "so" },
		"observation": func(i *Identity) { i.Observation = "" },
		"namespace": func(i *Identity) {
			i.Namespace = Namespace{Session: "u"}
		}, "sensitivity": func(i *Identity) { i.Sensitivity = Public },
		"a border": func(i *Identity) { i.Source, i.Observation = "", "so" },
	} {
		x := base
		change(&x)
		s := x.Seal()
		if other, ok := seen[s]; ok || len(s) != 32 {
			t.Errorf("%s and %s have the seal %s", what, other, s)
		}
		seen[s] = what
	}
}
