"""HLO in protobuf's binary form (`HloProto`, `HloModuleProto`, `HloSnapshot`) → HLO text."""
