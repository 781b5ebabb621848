package memproxy

import (
	"maps"
	"slices"
)

// route is one path of a store. In the types write and read, text lists the members of an item that may contain its
// text. The first of them that exists has the text. All other strings of the item, except plain ids, names and times,
// are judged together as the rest of the item.
type route struct {
	pattern string // pattern of net/http with method
	write   *write
	read    *read
}

type write struct {
	list   string // member of the body that has the items, or a single item; empty: the body is the item
	text   []string
	delete bool // the request deletes the memory that the path or the body names
	// own says that only a write with the origin user or system may use the path, because the request deletes many
	// memories at once.
	own bool
	// form says that the body is a form with files, not JSON. Then list is the field that has the files.
	form bool
	// bare is a text. If the body has no text, this one is proposed instead. It is set for requests that make the store
	// change its memories by itself.
	bare string
	// key lists members of the body. Together with the path, they identify a memory.
	key []string
	// reread is set if the store may rewrite the text of a write. It is the path of a memory up to the memory's id.
	// With it, the proxy reads the stored text after the write.
	reread string
	// added is the event by which the response to a write marks a new memory. Memories that existed before have other
	// events.
	added string
}

type read struct {
	// list is the member of the response that has the items. The response may also be a list of items. If list is
	// empty, the response is the item.
	list string
	text []string
}

var (
	done       = &read{}
	mem0Found  = &read{"results", []string{"memory"}}
	mem0One    = &read{"", []string{"memory"}}
	facts      = &read{"facts", []string{"fact"}}
	named      = []string{"namespace", "key"}
	itemsFound = &read{"items", []string{"value"}}
	forgets    = []string{"everything", "memoryOnly", "memory_only", "dataset", "datasetId", "dataset_id",
		"dataId", "data_id"}
	recalled = []string{"answer", "text", "content", "search_result"}
)

// kinds are the stores whose HTTP interfaces the proxy knows.
var kinds = map[string][]route{
	// The self-hosted server of mem0.
	"mem0": {
		{"POST /memories", &write{list: "messages", text: []string{"content"}, reread: "/memories/", added: "ADD"},
			mem0Found},
		{"GET /memories", nil, mem0Found},
		{"POST /search", nil, mem0Found},
		{"GET /memories/{id}", nil, mem0One},
		{"PUT /memories/{id}", &write{text: []string{"text", "data", "memory"}}, mem0One},
		{"DELETE /memories/{id}", &write{delete: true}, done},
		{"GET /memories/{id}/history", nil, &read{"results", []string{"new_memory"}}},
	},
	// The server of Graphiti. Some time after a write, it turns the messages into facts, in its own words.
	"graphiti": {
		{"POST /messages", &write{list: "messages", text: []string{"content"}}, done},
		{"POST /search", nil, facts},
		{"POST /get-memory", nil, facts},
		{"GET /episodes/{group}", nil, &read{"episodes", []string{"content"}}},
	},
	// The store of a LangGraph server.
	"langgraph": {
		{"PUT /store/items", &write{text: []string{"value"}, key: named}, done},
		{"GET /store/items", nil, &read{"", []string{"value"}}},
		{"DELETE /store/items", &write{delete: true, key: named}, done},
		{"POST /store/items/search", nil, itemsFound},
	},
	// The server of Cognee. It turns texts into a graph. Its answers are texts that its model writes.
	"cognee": {
		{"POST /api/v1/remember", &write{list: "data", text: []string{"content"}, form: true}, done},
		{"POST /api/v1/remember/entry", &write{list: "entry", text: recalled}, done},
		{"POST /api/v1/recall", nil, &read{"", recalled}},
		{"GET /api/v1/recall", nil, &read{"", recalled}},
		{"POST /api/v1/improve", &write{text: []string{"data"}, bare: "(enriched by the store)"}, done},
		{"POST /api/v1/forget", &write{delete: true, own: true, key: forgets}, done},
	},
}

// Kinds returns the names of the kinds.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }
