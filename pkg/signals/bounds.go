package signals

// Sizes on which cost estimates are based. If an input is within these sizes, the estimate proves that the cost is at
// most CostLimit, and the cost is not counted. For a larger input, the cost is counted and limited to CostLimit.
const (
	BoundText  = 64 << 10 // bytes of a text
	BoundValue = 1 << 10  // bytes of any other string
	BoundViews = 16       // views of a content
	BoundList  = 64       // elements of any other list
)

// bounded reports whether the sizes of an input are within these bounds.
func (in *Input) bounded() bool {
	if len(in.Content.Text) > BoundText || len(in.Action.Text) > BoundText || len(in.Content.Views) > BoundViews ||
		len(in.Content.Carriers) > BoundList || len(in.Action.Beliefs) > BoundList ||
		len(in.Decision.Beliefs) > BoundList || len(in.Recall.Items) > BoundList || len(in.Tools.Items) > BoundList {
		return false
	}
	for _, v := range in.Content.Views {
		if len(v) > BoundText {
			return false
		}
	}
	for _, bs := range [][]*Belief{in.Action.Beliefs, in.Decision.Beliefs} {
		for _, b := range bs {
			if max(len(b.ID), len(b.Key), len(b.Source), len(b.Observation)) > BoundText {
				return false
			}
		}
	}
	for _, it := range in.Recall.Items {
		if max(len(it.ID), len(it.Key), len(it.Source)) > BoundText || len(it.Kinds) > BoundList {
			return false
		}
	}
	for _, it := range in.Tools.Items {
		if max(len(it.Name), len(it.Description), len(it.Shadows)) > BoundText {
			return false
		}
	}
	for _, s := range []string{in.Event.Source, in.Event.Tool, in.Memory.Key, in.Decision.Summary, in.Recall.Query} {
		if len(s) > BoundValue {
			return false
		}
	}
	return true
}
