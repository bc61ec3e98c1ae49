"""What users declare: queue objects, and annotations on Jobs. Read, checked, and who governs what."""
