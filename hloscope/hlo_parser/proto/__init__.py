"""Conversion of binary HLO protos (`HloProto`, `HloModuleProto`, `HloSnapshot`) to HLO text."""
